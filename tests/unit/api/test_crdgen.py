"""The generator: deterministic, whole, and loud about what it cannot say."""

import shutil
from enum import StrEnum
from pathlib import Path
from typing import Annotated

import pytest
from pydantic import BaseModel, Field

from penstock_api.codegen import crdgen
from penstock_api.codegen.structural import NotStructural, structural
from penstock_api.types.fields import rule
from tests.unit.api.crds import ROOT


def test_no_generated_file_is_stale() -> None:
    assert crdgen.stale(ROOT) == []


def test_generating_twice_gives_the_same_bytes() -> None:
    assert crdgen.files(ROOT) == crdgen.files(ROOT)


@pytest.fixture
def checkout(tmp_path: Path) -> Path:
    shutil.copytree(ROOT / crdgen.CRDS_CHART, tmp_path / crdgen.CRDS_CHART)
    assert crdgen.main(["--out", str(tmp_path)]) == 0
    return tmp_path


def test_a_written_checkout_passes_the_check(checkout: Path) -> None:
    assert crdgen.main(["--check", "--out", str(checkout)]) == 0


def test_a_changed_file_fails_the_check_by_name(
    checkout: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    path = checkout / "crds" / "penstock.dev_inferencepools.yaml"
    path.write_text(path.read_text() + "# by hand\n")
    assert crdgen.main(["--check", "--out", str(checkout)]) == 1
    assert "crds/penstock.dev_inferencepools.yaml is stale: run penstock-crdgen" in (
        capsys.readouterr().err
    )


def test_a_missing_chart_copy_fails_the_check(checkout: Path) -> None:
    (checkout / crdgen.CRDS_CHART_COPY / "Chart.yaml").unlink()
    assert crdgen.stale(checkout) == [crdgen.CRDS_CHART_COPY / "Chart.yaml"]


def test_the_charts_keep_what_they_install(checkout: Path) -> None:
    for chart in (crdgen.CRDS_CHART, crdgen.CRDS_CHART_COPY):
        templates = sorted((checkout / chart / "templates").glob("*.yaml"))
        assert len(templates) == 2
        assert all(
            "helm.sh/resource-policy: keep" in template.read_text() for template in templates
        )


class Colour(StrEnum):
    """A colour."""

    RED = "Red"


class Inner(BaseModel):
    """Inner words."""

    colour: Colour


class Outer(BaseModel):
    """Outer
    words."""

    inner: Annotated[Inner | None, Field(description="Said here.")] = None
    size: Annotated[int, Field(gt=0, lt=10)] = 3
    names: dict[str, Annotated[str, Field(max_length=3)]] | None = None


def test_references_and_optionals_are_drawn_in() -> None:
    schema = structural(Outer)
    assert schema["description"] == "Outer words."
    assert schema["properties"]["inner"] == {
        "description": "Said here.",
        "type": "object",
        "required": ["colour"],
        "properties": {"colour": {"description": "A colour.", "type": "string", "enum": ["Red"]}},
    }


def test_exclusive_bounds_become_inclusive_and_defaults_go() -> None:
    size = structural(Outer)["properties"]["size"]
    assert size == {"type": "integer", "format": "int32", "minimum": 1, "maximum": 9}


def test_a_map_keeps_the_schema_of_its_values() -> None:
    names = structural(Outer)["properties"]["names"]
    assert names == {"type": "object", "additionalProperties": {"type": "string", "maxLength": 3}}


def test_a_float_is_rejected_by_name() -> None:
    class Bad(BaseModel):
        ratio: float

    with pytest.raises(NotStructural, match=r"Bad\.ratio: floats"):
        structural(Bad)


def test_a_keyword_that_a_crd_cannot_say_is_rejected_by_name() -> None:
    class Bad(BaseModel):
        either: int | str

    with pytest.raises(NotStructural, match=r"Bad\.either: anyOf"):
        structural(Bad)


def test_an_apostrophe_does_not_end_a_rules_message() -> None:
    said = rule("self.a", "the operator's own: drop %s", "self.a")["messageExpression"]
    assert said == r"'the operator\'s own: drop %s'.format([dyn(self.a)])"
