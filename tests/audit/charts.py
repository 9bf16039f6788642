"""Checks of the chart, rendered with all options, by kubeconform, kube-score, checkov and cyclonus.

The findings that each tool ignores are accepted; docs/design/audits.md gives the reasons.
"""

import json
import os
import subprocess
from collections.abc import Sequence
from pathlib import Path
from typing import Any

import yaml

from tests.audit import network_policies
from tests.audit.schemas import write_schemas
from tests.support.cluster.commands import output
from tests.support.cluster.packages.tools import (
    CYCLONUS,
    KUBE_SCORE,
    KUBERNETES,
    GoTool,
    build_tool,
)
from tests.support.cluster.places import CHECKOUT, Places
from tests.support.kube.monitoring import monitoring_crds
from tests.support.kube.target import Target

CHART = CHECKOUT / "charts" / "penstock"
CHANGED = CHECKOUT / "tests" / "unit" / "charts" / "changed.yaml"
OPTIONS = (
    "metrics.serviceMonitor.enabled=true", "metrics.prometheusRule.enabled=true",
    "metrics.dashboard.enabled=true", "poolMonitor.enabled=true", "networkPolicy.enabled=true",
    "poolNetworkPolicy.enabled=true", "replicas=2", "tls.secretName=tls",
    "poolAuthorities.configMapName=authorities", "image.repository=registry.example/operator",
    "defaultRuntimeImage=registry.example/runtime:1",
)  # fmt: skip
IGNORED_BY_KUBE_SCORE = (
    "--ignore-container-cpu-limit", "--ignore-test", "container-image-pull-policy",
    "--ignore-test", "pod-networkpolicy",
)  # fmt: skip
IGNORED_BY_CHECKOV = "CKV_K8S_11,CKV_K8S_15,CKV_K8S_38,CKV_K8S_43"


def render(target: Target, folder: Path) -> Path:
    """Write the chart with all options, without the Pod of `helm test`, and the samples; return the file."""
    sets = [word for option in OPTIONS for word in ("--set", option)]
    sets += [word for setting in network_policies.settings() for word in ("--set-json", setting)]
    named = ("-n", "system", "--kube-version", KUBERNETES, "--skip-tests")
    samples = sorted((CHART / "samples").glob("*.yaml"))
    rendered = folder / "chart.yaml"
    text = target.helm("template", "penstock", CHART, *named, *sets)
    rendered.write_text(text + "".join(f"---\n{sample.read_text()}" for sample in samples))
    return rendered


def render_others(target: Target, folder: Path) -> list[Path]:
    """Write the chart with its defaults, and with every value changed; return the files."""
    images = ("--set", "image.repository=x/operator,runtimeImage.repository=x/runtime")
    files = []
    for name, values in (("defaults", images), ("changed", ("--values", CHANGED))):
        text = target.helm("template", "penstock", CHART, "--kube-version", KUBERNETES, *values)
        files.append(folder / f"chart-{name}.yaml")
        files[-1].write_text(text)
    return files


def malformed(target: Target, rendered: Sequence[Path], folder: Path) -> bool:
    """Validate the manifests by kubeconform against the API server's schemas; return whether one has an error."""
    openapi = json.loads(target.kubectl("get", "--raw", "/openapi/v2"))
    crds = [*(CHECKOUT / "crds").glob("*.yaml"), *monitoring_crds()]
    schemas = folder / "schemas"
    print(f"{write_schemas(openapi, crds, schemas)} schemas from the API server and CRDs")
    location = f"{schemas}/{{{{.ResourceKind}}}}{{{{.KindSuffix}}}}.json"
    options = ("-strict", "-summary", "-schema-location", location)
    return _complains(target.programs / "kubeconform", *options, *rendered)


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
    policies, traffic, checks = network_policies.write(objects, folder)
    options = ("analyze", "--mode", "query-traffic", "--policy-path", policies)
    text = output([_built(CYCLONUS), *options, "--traffic-path", traffic])
    answers = network_policies.verdicts(text, len(checks))
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
