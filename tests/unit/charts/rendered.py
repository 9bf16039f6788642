"""The chart as helm renders it, without a cluster."""

from functools import cache
from pathlib import Path
from typing import Any

import yaml

from tests.support.kube.target import ProgramFailedError, Target

ROOT = Path(__file__).resolve().parents[3]
CHART = ROOT / "charts" / "penstock"
CRDS_CHART = ROOT / "charts" / "penstock-crds"
KUBERNETES = "1.36.3"

IMAGES = {
    "image.repository": "registry.example/penstock-operator",
    "runtimeImage.repository": "registry.example/penstock-runtime",
}

Object = dict[str, Any]


def template(chart: Path, *arguments: str | Path) -> list[Object]:
    """Return the objects that `helm template` renders."""
    loaded = yaml.load_all(_rendered(chart, *arguments), yaml.CSafeLoader)  # a tenth of the time
    return [manifest for manifest in loaded if manifest]


@cache
def _rendered(chart: Path, *arguments: str | Path) -> str:
    return Target.from_env().helm(
        "template", "penstock", chart, "--namespace", "penstock-system",
        "--kube-version", KUBERNETES, *arguments,
    )  # fmt: skip


def render(chart: Path = CHART, **values: str) -> list[Object]:
    """Return every object of the chart under `values`, without those of `helm test`; `__` in a name is a dot."""
    return template(chart, "--skip-tests", *_sets(chart, values))


def render_tests(**values: str) -> list[Object]:
    """Return the objects of `helm test`, the Pod last."""
    return template(
        CHART, "--show-only", "templates/tests/installation.yaml", *_sets(CHART, values)
    )


def _sets(chart: Path, values: dict[str, str]) -> list[str]:
    given = IMAGES if chart == CHART else {}
    wanted = given | {name.replace("__", "."): value for name, value in values.items()}
    return [word for name, value in wanted.items() for word in ("--set", f"{name}={value}")]


def rejection(name: str, value: str, **others: str) -> str:
    """Return helm's error message for an invalid value."""
    try:
        render(CHART, **{name: value}, **others)
    except ProgramFailedError as error:
        return str(error)
    raise AssertionError(f"helm accepted {name}={value}")


def only(objects: list[Object], kind: str, ending: str = "") -> Object:
    """Return the only object of `kind` whose name has this ending."""
    (match,) = [
        manifest
        for manifest in objects
        if manifest["kind"] == kind and manifest["metadata"]["name"].endswith(ending)
    ]
    return match
