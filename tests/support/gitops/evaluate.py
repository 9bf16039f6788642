"""Health of objects as GitOps tools compute it, by the Go program in `health/`, which contains their libraries."""

import json
import subprocess
from collections.abc import Iterable, Mapping
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import yaml

from tests.support.cluster.locks import locked
from tests.support.cluster.packages.tools import GITOPS_HEALTH, build_tool
from tests.support.cluster.places import Places

EXAMPLES = Path(__file__).parents[3] / "examples" / "gitops"
HEALTH_CHECK = EXAMPLES / "argocd/resource_customizations/penstock.dev/InferencePool/health.lua"
ARGO_CD_CONFIG = EXAMPLES / "argocd" / "argocd-cm.yaml"
FLUX_KUSTOMIZATION = EXAMPLES / "flux" / "kustomization.yaml"


@dataclass(frozen=True, slots=True)
class Health:
    """A verdict; the words are the tool's own."""

    status: str
    message: str


@dataclass(frozen=True, slots=True)
class Verdicts:
    """What each tool says of an object."""

    kstatus: Health
    flux: Health
    argocd: Health


def flux_expressions() -> Mapping[str, str]:
    """Return the expressions of the sample Kustomization for pools."""
    manifest = yaml.safe_load(FLUX_KUSTOMIZATION.read_text())
    (expressions,) = manifest["spec"]["healthCheckExprs"]
    assert expressions["kind"] == "InferencePool"
    return {key: expressions[key] for key in ("inProgress", "failed", "current")}


class GitOpsTools:
    """The tools, built on first use."""

    def __init__(self, folder: Path) -> None:
        """`folder` receives the file with Flux' expressions."""
        places = Places.from_env()
        with locked(places, "gitops-health"):
            self._program = build_tool(places, GITOPS_HEALTH) / GITOPS_HEALTH.programs[0]
        self._expressions = folder / "expressions.json"
        self._expressions.write_text(json.dumps(flux_expressions()))

    def verdicts(self, objects: Iterable[Mapping[str, Any]]) -> list[Verdicts]:
        """Return the verdicts on each object."""
        done = subprocess.run(
            [self._program, HEALTH_CHECK, self._expressions],
            input="\n".join(map(json.dumps, objects)),
            capture_output=True, text=True, check=False, timeout=60,
        )  # fmt: skip
        assert done.returncode == 0, done.stderr
        lines = map(json.loads, done.stdout.splitlines())
        return [Verdicts(**{tool: Health(**said) for tool, said in line.items()}) for line in lines]
