"""`make sbom` and `make audit`: bills of materials, known vulnerabilities, and the rendered charts against schemas.

What they find is written below build/audit; what was done about it is in docs/security.md.
"""

import json
import os
import subprocess
import sys
from collections.abc import Iterable, Sequence
from importlib import metadata
from pathlib import Path

from tests.audit.bill import Bom, bill, closure, requirements
from tests.audit.schemas import write_schemas
from tests.cluster.tools import KUBERNETES
from tests.kube.target import Target

ROOT = Path(__file__).parents[2]
OUT = ROOT / "build" / "audit"
IMAGES = {"penstock-operator": "operator", "penstock-runtime": "runtime"}
"""Image to the extra that it is installed from (its Dockerfile)."""
OPTIONS = (
    "metrics.serviceMonitor.enabled=true", "metrics.prometheusRule.enabled=true",
    "metrics.dashboard.enabled=true", "poolMonitor.enabled=true", "networkPolicy.enabled=true",
    "poolNetworkPolicy.enabled=true", "replicas=2", "tls.secretName=tls",
    "poolAuthorities.configMapName=authorities", "image.repository=registry.example/operator",
    "defaultRuntimeImage=registry.example/runtime:1",
)  # fmt: skip
"""Everything that the chart can render."""
FOREIGN_KINDS = "ServiceMonitor,PodMonitor,PrometheusRule"
"""Of the Prometheus Operator, whose schemas the test API server does not have."""


def main(arguments: Sequence[str]) -> int:
    """Run `sbom`, or `audit`, which says what it finds and ends with 1 if that is anything."""
    OUT.mkdir(parents=True, exist_ok=True)
    bills = write_bills()
    if list(arguments) == ["sbom"]:
        return 0
    found = [vulnerabilities(bills), malformed()]
    return int(any(found))


def write_bills() -> list[Path]:
    """Write each image's bill of materials and its pinned requirements; return the latter."""
    whole = OUT / "environment.cdx.json"
    command = (
        _program("cyclonedx-py"), "environment", sys.executable, "--pyproject", "pyproject.toml",
        "--mc-type", "application", "--output-reproducible", "--of", "JSON", "-o", whole,
    )  # fmt: skip
    subprocess.run(command, check=True, cwd=ROOT)
    described: Bom = json.loads(whole.read_text())
    pinned = []
    for image, extra in IMAGES.items():
        made = bill(described, image, closure("penstock", frozenset({extra}), _requires))
        (OUT / f"{image}.cdx.json").write_text(json.dumps(made, indent=1))
        pinned.append(OUT / f"{image}.txt")
        pinned[-1].write_text(requirements(made))
        print(f"{image}: {len(made['components'])} components")
    return pinned


def _requires(name: str) -> Iterable[str]:
    try:
        return metadata.requires(name) or ()
    except metadata.PackageNotFoundError:
        return ()


def vulnerabilities(bills: Iterable[Path]) -> bool:
    """Ask pip-audit for what is known of the images' components; return whether there is anything, or no answer."""
    found = False
    for one in bills:
        asked = (_program("pip-audit"), "--strict", "--no-deps", "--disable-pip", "-r", one)
        found |= bool(subprocess.run(asked, check=False, cwd=ROOT).returncode)
    return found


def malformed() -> bool:
    """Check the rendered chart against the API server's own schemas; return whether anything does not fit."""
    target = Target.from_env()
    schemas, rendered = OUT / "schemas", OUT / "chart.yaml"
    made = write_schemas(
        json.loads(target.kubectl("get", "--raw", "/openapi/v2")), ROOT / "crds", schemas
    )
    print(f"{made} schemas from the API server and crds/")
    sets = [word for one in OPTIONS for word in ("--set", one)]
    chart = ROOT / "charts" / "penstock"
    samples = "".join(
        f"---\n{one.read_text()}" for one in sorted((chart / "samples").glob("*.yaml"))
    )
    rendered.write_text(
        target.helm(
            "template", "penstock", chart, "-n", "system", "--kube-version", KUBERNETES, *sets
        )
        + samples
    )
    location = f"{schemas}/{{{{.ResourceKind}}}}{{{{.KindSuffix}}}}.json"
    checked = (
        target.programs / "kubeconform", "-strict", "-summary", "-skip", FOREIGN_KINDS,
        "-schema-location", location, rendered,
    )  # fmt: skip
    return bool(subprocess.run(checked, check=False).returncode)


def _program(name: str) -> Path:
    return Path(os.environ["PENSTOCK_AUDIT_BIN"]) / name


if __name__ == "__main__":
    sys.exit(main(sys.argv[1:]))
