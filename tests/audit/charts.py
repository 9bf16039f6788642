"""Checks of the chart, rendered with all options, by kubeconform, kube-score, checkov and cyclonus.

The findings that each tool ignores are accepted; docs/design/audits.md gives the reasons.
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
"""A Go module that contains the CRDs of ServiceMonitor, PodMonitor and PrometheusRule."""
MONITORING = ("servicemonitors", "podmonitors", "prometheusrules")
IGNORED_BY_KUBE_SCORE = (
    "--ignore-container-cpu-limit", "--ignore-test", "container-image-pull-policy",
    "--ignore-test", "pod-networkpolicy",
)  # fmt: skip
IGNORED_BY_CHECKOV = "CKV_K8S_11,CKV_K8S_15,CKV_K8S_38,CKV_K8S_43"


def render(target: Target, folder: Path) -> Path:
    """Write the rendered chart, followed by the samples; return the file."""
    sets = [word for option in OPTIONS for word in ("--set", option)]
    sets += [word for setting in reach.settings() for word in ("--set-json", setting)]
    named = ("-n", "system", "--kube-version", KUBERNETES)
    samples = sorted((CHART / "samples").glob("*.yaml"))
    rendered = folder / "chart.yaml"
    text = target.helm("template", "penstock", CHART, *named, *sets)
    rendered.write_text(text + "".join(f"---\n{sample.read_text()}" for sample in samples))
    return rendered


def malformed(target: Target, rendered: Path, folder: Path) -> bool:
    """Validate the chart by kubeconform against the API server's schemas; return whether it has an error."""
    openapi = json.loads(target.kubectl("get", "--raw", "/openapi/v2"))
    crds = [*(CHECKOUT / "crds").glob("*.yaml"), *_monitoring()]
    schemas = folder / "schemas"
    print(f"{write_schemas(openapi, crds, schemas)} schemas from the API server and CRDs")
    location = f"{schemas}/{{{{.ResourceKind}}}}{{{{.KindSuffix}}}}.json"
    options = ("-strict", "-summary", "-schema-location", location)
    return _complains(target.programs / "kubeconform", *options, rendered)


def _monitoring() -> list[Path]:
    """Return the CRDs of the Prometheus Operator, which the test cluster does not have."""
    module = output(["go", "mod", "download", "-json", PROMETHEUS_OPERATOR], timeout_seconds=300)
    folder = Path(json.loads(module)["Dir"]) / "example" / "prometheus-operator-crd"
    return [folder / f"monitoring.coreos.com_{kind}.yaml" for kind in MONITORING]


def scored(rendered: Path) -> bool:
    """Run kube-score; return whether it has a finding that is not accepted."""
    return _complains(_built(KUBE_SCORE), "score", "-o", "ci", *IGNORED_BY_KUBE_SCORE, rendered)


def checked(rendered: Path) -> bool:
    """Run checkov; return whether it has a finding that is not accepted."""
    program = Path(os.environ["PENSTOCK_CHECKOV_BIN"]) / "checkov"
    options = ("--framework", "kubernetes", "--compact", "--quiet", "--skip-download")
    return _complains(program, *options, "--skip-check", IGNORED_BY_CHECKOV, "-f", rendered)


def misreached(rendered: Path, folder: Path) -> bool:
    """Evaluate the NetworkPolicies with cyclonus; return whether any verdict differs from the expected one."""
    objects: list[dict[str, Any]] = [
        document for document in yaml.safe_load_all(rendered.read_text()) if document
    ]
    policies, traffic, checks = reach.write(objects, folder)
    options = ("analyze", "--mode", "query-traffic", "--policy-path", policies)
    text = output([_built(CYCLONUS), *options, "--traffic-path", traffic])
    answers = reach.verdicts(text, len(checks))
    wrong = [
        check for check, allowed in zip(checks, answers, strict=True) if allowed is not check.wanted
    ]
    for check in checks:
        print(f"{'FAILED' if check in wrong else 'ok'}: {check}")
    return bool(wrong)


def _built(tool: GoTool) -> Path:
    return build_tool(Places.from_env(), tool) / tool.programs[0]


def _complains(*command: str | Path) -> bool:
    print("+", *[Path(command[0]).name, *command[1:]])
    return bool(subprocess.run(command, check=False, cwd=CHECKOUT).returncode)
