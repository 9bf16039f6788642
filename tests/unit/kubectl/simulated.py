"""Runs `kubectl penstock simulate` against a stage, for tests."""

import json
from pathlib import Path

import yaml

from penstock_kubectl.__main__ import main
from tests.unit.kubectl.stage import Object, Stage, kubeconfig, policy


def run(stage: Stage, folder: Path, *words: str) -> int:
    """Simulate the pool of a stage; return the exit status."""
    with kubeconfig(stage, folder) as file:
        return main(["simulate", "chat", "--kubeconfig", str(file), *words])


def proposed(folder: Path, **spec: object) -> str:
    """Write a policy to a file; return its path."""
    file = folder / "proposed.yaml"
    file.write_text(yaml.safe_dump(policy("prod", **spec)))
    return str(file)


def cases(folder: Path) -> dict[str, Object]:
    """Return the figures that a run wrote to `out.json`, by case."""
    written = json.loads((folder / "out.json").read_text())
    return {case["case"]: case for case in written["cases"]}
