"""The docs' examples are what the types say, and no field is missing from the page on the API."""

import re
from typing import Any

import pytest
import yaml

from penstock_api import names
from penstock_api.base import ApiModel
from penstock_api.types.policy import PolicySpec
from penstock_api.types.pool import PoolSpec
from penstock_operator.decide.spec.live_fields import BUILT_IN
from tests.unit.api.crds import ROOT, Schema, own_nodes
from tests.unit.api.examples import PAGES, examples, name_of

README = (ROOT / "README.md").read_text(encoding="utf-8")
API_PAGE = (ROOT / "docs" / "reference" / "api.md").read_text(encoding="utf-8")
SPECS: dict[str, type[ApiModel]] = {names.POOL_KIND: PoolSpec, names.POLICY_KIND: PolicySpec}


@pytest.mark.parametrize("manifest", examples(), ids=name_of)
def test_an_example_validates_and_round_trips(manifest: Schema) -> None:
    assert manifest["apiVersion"] == names.API_VERSION
    typed = SPECS[manifest["kind"]].model_validate(manifest["spec"])
    dumped = typed.model_dump(mode="json", by_alias=True, exclude_none=True)
    implied = {"replicas": 1} if manifest["kind"] == names.POOL_KIND else {}
    assert dumped == implied | manifest["spec"]


def test_the_first_pool_that_a_reader_applies_needs_no_device() -> None:
    applied = re.findall(r"kubectl apply .*-f \S*samples/(\S+)", README)
    assert applied[0] == "pool-cpu.yaml"
    spec = yaml.safe_load((ROOT / "charts/penstock/samples/pool-cpu.yaml").read_text())["spec"]
    accelerator = PoolSpec.model_validate(spec).accelerator
    assert accelerator is not None
    assert accelerator.count == 0


def test_the_page_on_the_api_has_every_field() -> None:
    leaves = [
        path
        for _, path, node in own_nodes()
        if "properties" not in node and not path.endswith((".*", "[]"))
    ]
    assert [path for path in leaves if f"`{path}`" not in API_PAGE] == []


def test_the_built_in_values_are_the_ones_in_the_descriptions() -> None:
    descriptions = {
        path: node.get("description", "")
        for kind, path, node in own_nodes()
        if kind == "InferencePool"
    }
    for field, value in BUILT_IN.items():
        expected = f"defaults to {value}."
        assert expected.lower() in descriptions[f"spec.{field}"].lower(), field


@pytest.mark.parametrize("page", PAGES, ids=lambda page: page.name)
def test_links_between_the_docs_lead_somewhere(page: Any) -> None:
    for target in re.findall(r"\]\(([^)#]+)[^)]*\)", page.read_text(encoding="utf-8")):
        if not target.startswith("http"):
            assert (page.parent / target).exists(), target


ARCHITECTURE = (ROOT / "docs" / "design" / "architecture.md").read_text(encoding="utf-8")


def test_the_architecture_names_only_what_exists_and_forgets_no_folder() -> None:
    packages = {
        "penstock_api": ROOT / "operator" / "penstock_api",
        "penstock_operator": ROOT / "operator" / "penstock_operator",
        "penstock_runtime": ROOT / "runtime" / "penstock_runtime",
    }
    for name, root in packages.items():
        table = ARCHITECTURE.split(f"/{name}`\n")[1].split("\n### ")[0]
        listed = re.findall(r"`([a-z_/]+(?:\.py|/))`", table)
        assert listed, name
        assert [entry for entry in listed if entry != "crds/" and not (root / entry).exists()] == []
        folders = {package.parent.name for package in root.glob("*/__init__.py")}
        assert {entry.rstrip("/") for entry in listed} >= folders, name
