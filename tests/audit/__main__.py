"""`make sbom` and `make audit`: bills of materials, known vulnerabilities, and what tools find in the rendered chart.

What they find is written below build/audit; what was done about it is in docs/security.md.
"""

import json
import os
import subprocess
import sys
from collections.abc import Iterable, Sequence
from importlib import metadata
from pathlib import Path

from tests.audit import charts
from tests.audit.bill import Bom, bill, closure, requirements
from tests.support.kube.target import Target

ROOT = Path(__file__).parents[2]
OUT = ROOT / "build" / "audit"
IMAGES = {"penstock-operator": "operator", "penstock-runtime": "runtime"}
"""Image to the extra that it is installed from (its Dockerfile)."""


def main(arguments: Sequence[str]) -> int:
    """Run `sbom`, or `audit`, which says what it finds and ends with 1 if that is anything."""
    OUT.mkdir(parents=True, exist_ok=True)
    bills = write_bills()
    if list(arguments) == ["sbom"]:
        return 0
    target = Target.from_env()
    rendered = charts.render(target, OUT)
    found = {
        "pip-audit": vulnerabilities(bills),
        "kubeconform": charts.malformed(target, rendered, OUT),
        "kube-score": charts.scored(rendered),
        "checkov": charts.checked(rendered),
        "cyclonus": charts.misreached(rendered, OUT),
    }
    for tool, anything in found.items():
        print(f"{tool}: {'something found, or no answer: see above' if anything else 'clean'}")
    return int(any(found.values()))


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


def _program(name: str) -> Path:
    return Path(os.environ["PENSTOCK_AUDIT_BIN"]) / name


if __name__ == "__main__":
    sys.exit(main(sys.argv[1:]))
