"""The chart, rendered with all that it can render, under the eyes of tools that know what goes wrong with such.

What each tool is told to leave out is left as it is on purpose: docs/security.md says why.
"""

import json
import os
import subprocess
from pathlib import Path
from typing import Any

import yaml

from tests.audit import reach
from tests.audit.schemas import write_schemas
from tests.support.cluster.commands import output
from tests.support.cluster.places import CHECKOUT, Places
from tests.support.cluster.tools import CYCLONUS, KUBE_SCORE, KUBERNETES, GoTool, build_tool
from tests.support.kube.target import Target

CHART = CHECKOUT / "charts" / "penstock"
OPTIONS = (
    "metrics.serviceMonitor.enabled=true", "metrics.prometheusRule.enabled=true",
    "metrics.dashboard.enabled=true", "poolMonitor.enabled=true", "networkPolicy.enabled=true",
    "poolNetworkPolicy.enabled=true", "replicas=2", "tls.secretName=tls",
    "poolAuthorities.configMapName=authorities", "image.repository=registry.example/operator",
    "defaultRuntimeImage=registry.example/runtime:1",
)  # fmt: skip
PROMETHEUS_OPERATOR = "github.com/prometheus-operator/prometheus-operator@v0.85.0"
"""A Go module that brings the CRDs of ServiceMonitor, PodMonitor and PrometheusRule."""
MONITORING = ("servicemonitors", "podmonitors", "prometheusrules")
LEFT_BY_KUBE_SCORE = (
    "--ignore-container-cpu-limit", "--ignore-test", "container-image-pull-policy",
    "--ignore-test", "pod-networkpolicy",
)  # fmt: skip
LEFT_BY_CHECKOV = "CKV_K8S_11,CKV_K8S_15,CKV_K8S_38,CKV_K8S_43"


def render(target: Target, folder: Path) -> Path:
    """Write the rendered chart, and the samples behind it; return the file."""
    sets = [word for one in OPTIONS for word in ("--set", one)]
    sets += [word for one in reach.settings() for word in ("--set-json", one)]
    named = ("-n", "system", "--kube-version", KUBERNETES)
    samples = sorted((CHART / "samples").glob("*.yaml"))
    rendered = folder / "chart.yaml"
    text = target.helm("template", "penstock", CHART, *named, *sets)
    rendered.write_text(text + "".join(f"---\n{one.read_text()}" for one in samples))
    return rendered


def malformed(target: Target, rendered: Path, folder: Path) -> bool:
    """Check it by kubeconform against the API server's own schemas; return whether anything does not fit."""
    openapi = json.loads(target.kubectl("get", "--raw", "/openapi/v2"))
    crds = [*(CHECKOUT / "crds").glob("*.yaml"), *_monitoring()]
    schemas = folder / "schemas"
    print(f"{write_schemas(openapi, crds, schemas)} schemas from the API server and CRDs")
    location = f"{schemas}/{{{{.ResourceKind}}}}{{{{.KindSuffix}}}}.json"
    options = ("-strict", "-summary", "-schema-location", location)
    return _complains(target.programs / "kubeconform", *options, rendered)


def _monitoring() -> list[Path]:
    """Return the CRDs of the Prometheus Operator, which no API server of ours has."""
    told = output(["go", "mod", "download", "-json", PROMETHEUS_OPERATOR], timeout_seconds=300)
    folder = Path(json.loads(told)["Dir"]) / "example" / "prometheus-operator-crd"
    return [folder / f"monitoring.coreos.com_{one}.yaml" for one in MONITORING]


def scored(rendered: Path) -> bool:
    """Ask kube-score; return whether it finds anything that is not left on purpose."""
    return _complains(_built(KUBE_SCORE), "score", "-o", "ci", *LEFT_BY_KUBE_SCORE, rendered)


def checked(rendered: Path) -> bool:
    """Ask checkov; return whether it finds anything that is not left on purpose."""
    program = Path(os.environ["PENSTOCK_CHECKOV_BIN"]) / "checkov"
    options = ("--framework", "kubernetes", "--compact", "--quiet", "--skip-download")
    return _complains(program, *options, "--skip-check", LEFT_BY_CHECKOV, "-f", rendered)


def misreached(rendered: Path, folder: Path) -> bool:
    """Ask cyclonus who reaches whom under the NetworkPolicies; return whether anything is not as it is to be."""
    objects: list[dict[str, Any]] = [one for one in yaml.safe_load_all(rendered.read_text()) if one]
    held, traffic, asked = reach.write(objects, folder)
    options = ("analyze", "--mode", "query-traffic", "--policy-path", held)
    said = output([_built(CYCLONUS), *options, "--traffic-path", traffic])
    answers = reach.verdicts(said, len(asked))
    wrong = [one for one, allowed in zip(asked, answers, strict=True) if allowed is not one.wanted]
    for one in asked:
        print(f"{'NOT SO' if one in wrong else 'so'}: {one}")
    return bool(wrong)


def _built(tool: GoTool) -> Path:
    return build_tool(Places.from_env(), tool) / tool.programs[0]


def _complains(*command: str | Path) -> bool:
    print("+", *[Path(command[0]).name, *command[1:]])
    return bool(subprocess.run(command, check=False, cwd=CHECKOUT).returncode)
