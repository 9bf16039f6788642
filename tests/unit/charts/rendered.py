"""The chart as helm renders it, without a cluster."""

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
    "defaultRuntimeImage": "registry.example/penstock-runtime:0.1.0",
}

Object = dict[str, Any]


def render(chart: Path = CHART, **values: str) -> list[Object]:
    """Return every object of the chart under `values`; `__` in a name is a dot."""
    given = IMAGES if chart == CHART else {}
    wanted = given | {name.replace("__", "."): value for name, value in values.items()}
    sets = [word for name, value in wanted.items() for word in ("--set", f"{name}={value}")]
    text = Target.from_env().helm(
        "template", "penstock", chart, "--namespace", "penstock-system",
        "--kube-version", KUBERNETES, *sets,
    )  # fmt: skip
    return [manifest for manifest in yaml.safe_load_all(text) if manifest]


def rejection(name: str, value: str) -> str:
    """Return helm's error message for an invalid value."""
    try:
        render(CHART, **{name: value})
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
