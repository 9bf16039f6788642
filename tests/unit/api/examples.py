"""The manifests that the docs and examples/ show."""

import re
from pathlib import Path
from typing import Any

import yaml

from penstock_api import names
from tests.unit.api.crds import ROOT

PAGES = [ROOT / "README.md", *sorted((ROOT / "docs").rglob("*.md"))]
KINDS = {names.POOL_KIND, names.POLICY_KIND}


def examples() -> list[dict[str, Any]]:
    """Return every whole pool and policy in a YAML block of the docs."""
    blocks = [
        block
        for page in PAGES
        for block in re.findall(r"```yaml\n(.*?)```", page.read_text(encoding="utf-8"), re.DOTALL)
    ]
    documents = [document for block in blocks for document in yaml.safe_load_all(block)]
    return [
        document
        for document in documents
        if isinstance(document, dict) and document.get("kind") in KINDS
    ]


def files() -> dict[Path, dict[str, Any]]:
    """Return the pools and policies of examples/ by file, each of which has one."""
    folder = ROOT / "examples"
    paths = sorted([*folder.glob("*.yaml"), *folder.glob("pools/*.yaml")])
    return {path: yaml.safe_load(path.read_text(encoding="utf-8")) for path in paths}


def name_of(manifest: dict[str, Any]) -> str:
    """Return a manifest's name, for people."""
    return str(manifest["metadata"]["name"])
