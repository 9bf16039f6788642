"""Images run as a user that is not root, hold no more than their own program, and keep their packages over an edit."""

import re
from pathlib import Path

import pytest

from penstock_operator.decide.manifests.pod_template.pod import USER
from tests.support.cluster.images import make
from tests.support.cluster.images.builder import Buildah
from tests.support.cluster.images.recipes import RECIPES, Recipe
from tests.support.cluster.places import Places
from tests.unit.api.crds import ROOT

PACKAGED = [recipe for recipe in RECIPES if recipe.extras]


@pytest.mark.parametrize(("room", "other"), [("operator", "runtime"), ("runtime", "operator")])
def test_an_image_runs_as_the_user_that_pods_ask_for_and_holds_one_program(
    room: str, other: str
) -> None:
    text = (ROOT / room / "Dockerfile").read_text()
    users = re.findall(r"^USER (\S+)$", text, re.MULTILINE)
    assert users == [f"{USER}:{USER}"]
    after = text.split(f"USER {USER}:{USER}")[1]
    assert "RUN" not in after
    assert "COPY" not in after
    assert f"penstock_{other}" not in text
    assert "COPY . " not in text


def test_what_is_not_for_images_is_not_sent_to_their_builder() -> None:
    lines = (ROOT / ".dockerignore").read_text().splitlines()
    rules = [line for line in lines if line and not line.startswith("#")]
    assert rules[0] == "*"
    assert {rule for rule in rules if rule.startswith("!")} == {
        "!pyproject.toml", "!operator", "!runtime"
    }  # fmt: skip


@pytest.mark.parametrize("recipe", PACKAGED, ids=lambda recipe: recipe.name)
def test_the_layer_of_packages_depends_on_the_project_file_and_the_wheels_alone(
    recipe: Recipe,
) -> None:
    """BuildKit's key of a layer has the content of what is mounted, so a mount of the source would renew it."""
    text = (ROOT / recipe.dockerfile).read_text()
    before, _, after = text.partition("pip install")
    assert re.findall(r"^COPY (.+)$", before, re.MULTILINE) == ["pyproject.toml /opt/penstock/"]
    assert re.findall(r"--mount=\S+", before) == [
        f"--mount=type=bind,source={make.wheels_folder(recipe)},target=/wheels"
    ]
    assert "--mount" not in after


def test_another_dockerfile_needs_the_wheels_again(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Without them the builder would take torch from the package index, which has it for CUDA alone."""
    recipe, places, checkout = PACKAGED[0], Places(tmp_path), tmp_path / "checkout"
    file = checkout / recipe.dockerfile
    file.parent.mkdir(parents=True)
    file.write_text("FROM base\n")
    monkeypatch.setattr(make, "CHECKOUT", checkout)
    record = make._packages_record(places, recipe)
    record.parent.mkdir(parents=True)
    record.write_text(make._packages_layer(recipe, "base"))
    assert make._has_packages(places, Buildah(places), recipe, "base")
    file.write_text("FROM base\nRUN true\n")
    assert not make._has_packages(places, Buildah(places), recipe, "base")


@pytest.mark.parametrize("recipe", PACKAGED, ids=lambda recipe: recipe.name)
def test_the_folder_of_wheels_is_there_without_wheels(recipe: Recipe, tmp_path: Path) -> None:
    folder = make.wheels_folder(recipe)
    assert (ROOT / folder / "README.md").exists()
    context = make._context(Places(tmp_path), recipe, with_wheels=False)
    assert list((context / folder).iterdir()) == []
