"""`make sbom` and `make audit`: bills of materials, known vulnerabilities, and findings in the rendered chart.

Results are written to build/audit; docs/design/audits.md explains the accepted findings.
"""

import json
import os
import subprocess
import sys
from collections.abc import Iterable, Sequence
from importlib import metadata
from pathlib import Path

from tests.audit import charts
from tests.audit.sbom import Bom, bill, closure, requirements
from tests.support.kube.target import Target

ROOT = Path(__file__).parents[2]
OUT = ROOT / "build" / "audit"
IMAGES = {"penstock-operator": "operator", "penstock-runtime": "runtime"}
"""Image to the extra that it is installed from (its Dockerfile)."""


def main(arguments: Sequence[str]) -> int:
    """Run `sbom`, or `audit`, which prints its findings and returns 1 if there are any."""
    OUT.mkdir(parents=True, exist_ok=True)
    bills = write_bills()
    if list(arguments) == ["sbom"]:
        return 0
    target = Target.from_env()
    rendered = charts.render(target, OUT)
    findings = {
        "pip-audit": vulnerabilities(bills),
        "kubeconform": charts.malformed(
            target, [rendered, *charts.render_others(target, OUT)], OUT
        ),
        "kube-score": charts.scored(rendered),
        "checkov": charts.checked(rendered),
        "cyclonus": charts.misreached(rendered, OUT),
    }
    for tool, anything in findings.items():
        print(f"{tool}: {'findings or no answer, see above' if anything else 'clean'}")
    return int(any(findings.values()))


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
        document = bill(described, image, closure("penstock", frozenset({extra}), _requires))
        (OUT / f"{image}.cdx.json").write_text(json.dumps(document, indent=1))
        pinned.append(OUT / f"{image}.txt")
        pinned[-1].write_text(requirements(document))
        print(f"{image}: {len(document['components'])} components")
    return pinned


def _requires(name: str) -> Iterable[str]:
    try:
        return metadata.requires(name) or ()
    except metadata.PackageNotFoundError:
        return ()


def vulnerabilities(bills: Iterable[Path]) -> bool:
    """Run pip-audit on the images' components; return whether it failed or found a vulnerability."""
    failed = False
    for bill_file in bills:
        command = (_program("pip-audit"), "--strict", "--no-deps", "--disable-pip", "-r", bill_file)
        failed |= bool(subprocess.run(command, check=False, cwd=ROOT).returncode)
    return failed


def _program(name: str) -> Path:
    return Path(os.environ["PENSTOCK_AUDIT_BIN"]) / name


if __name__ == "__main__":
    sys.exit(main(sys.argv[1:]))
