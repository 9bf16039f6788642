"""Manifests of the docs have no field that the CRDs do not know, and commands name values and files that exist."""

import re
import subprocess
from typing import Any

import pytest
import yaml

from tests.support.pages.blocks import DOCS, ROOT, Block, blocks, manifests, pages
from tests.unit.docs.schema import faults

BLOCKS = [block for page in pages() for block in blocks(page)]
SHELL = [block for block in BLOCKS if block.language in ("sh", "bash", "shell", "console")]
YAML = [block for block in BLOCKS if block.language in ("yaml", "sh")]
VALUES: dict[str, Any] = yaml.safe_load((ROOT / "charts/penstock/values.yaml").read_text())


def pool(**spec: Any) -> dict[str, Any]:
    source = {"type": "Module", "module": {"factory": "a:b"}}
    return {"kind": "InferencePool", "spec": {"model": {"source": source}, **spec}}


def test_an_unknown_field_a_missing_one_and_a_wrong_word_are_found() -> None:
    assert faults(pool()) == []
    assert faults(pool(modle={})) == ["spec.modle is unknown"]
    assert faults(pool(batching={"size": {"maximum": 4}})) == [
        "spec.batching.size.maximum is unknown"
    ]
    assert faults(pool(objectives=[{"metric": "RequestLatency"}])) == [
        "spec.objectives[].milliseconds is missing"
    ]
    assert faults(pool(scaling={"mode": "Automatic"}))[0].startswith(
        "spec.scaling.mode: 'Automatic'"
    )
    assert faults({"spec": {"gpuBudget": []}}) == ["spec.gpuBudget is unknown"]
    assert faults({"spec": {"gpuBudgets": []}}) == []


@pytest.mark.parametrize("block", YAML, ids=str)
def test_a_manifest_has_only_fields_of_its_kind(block: Block) -> None:
    for manifest in manifests(block):
        if isinstance(manifest, dict):
            assert faults(manifest) == []


def test_both_kinds_are_shown() -> None:
    shown = [
        document for block in YAML for document in manifests(block) if isinstance(document, dict)
    ]
    kinds = [document.get("kind") for document in shown]
    assert kinds.count("InferencePool") > 10
    assert kinds.count("InferencePolicy") > 4


@pytest.mark.parametrize("block", SHELL, ids=str)
def test_commands_are_of_the_language_that_runs_as_a_test_and_parse(block: Block) -> None:
    assert block.language == "sh"
    subprocess.run(["bash", "-n"], input=block.text, text=True, check=True)


@pytest.mark.parametrize("block", SHELL, ids=str)
def test_a_value_of_the_chart_that_a_command_sets_exists(block: Block) -> None:
    for name in re.findall(r"--set '?([\w.]+)[\[=]", block.text):
        part: Any = VALUES
        for key in name.split("."):
            assert key in part, name
            part = part[key]


@pytest.mark.parametrize("block", SHELL, ids=str)
def test_a_file_of_the_repository_that_a_command_names_exists(block: Block) -> None:
    for name in re.findall(
        r"(?<![\w/.])((?:charts|examples|crds|operator|runtime)/[\w./-]+)", block.text
    ):
        assert (ROOT / name).exists(), name


def test_a_command_that_names_the_image_of_envoy_has_the_chart_s_tag() -> None:
    image = VALUES["gateway"]["envoyImage"]
    commands = "".join(block.text for block in SHELL)
    assert set(re.findall(rf"{image['repository']}:([\w.-]+)", commands)) == {image["tag"]}


@pytest.mark.parametrize("page", pages("tutorials", "how-to"), ids=lambda page: page.stem)
def test_commands_of_tutorials_and_guides_are_in_fences_that_run(page: Any) -> None:
    text = re.sub(
        r"^```.*?^```", "", page.read_text(encoding="utf-8"), flags=re.MULTILINE | re.DOTALL
    )
    indented = re.findall(r"^    (?:kubectl|helm|curl|make|docker|pip) .*$", text, re.MULTILINE)
    assert indented == [], page.relative_to(DOCS)
