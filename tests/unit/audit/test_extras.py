"""A program starts with the packages of its extra alone: each is installed without the others."""

import subprocess
import sys
import tomllib
from collections.abc import Iterable
from importlib import metadata
from typing import Any

import pytest

from tests.audit.sbom import closure, plain
from tests.unit.api.crds import ROOT

PROJECT: dict[str, Any] = tomllib.loads((ROOT / "pyproject.toml").read_text())["project"]
PROGRAMS = {
    "operator": "penstock_operator.__main__",
    "gateway": "penstock_gateway.main",
    "batches": "penstock_batches.main",
    "kubectl": "penstock_kubectl.__main__",
}
"""By extra; the runtime's imports depend on the model."""
IMPORT = """
import importlib, pkgutil, sys

class Without:
    names, finders = frozenset(sys.argv[2:]), [*sys.meta_path]

    def find_spec(self, name, path=None, target=None):
        if name.partition(".")[0] in self.names:
            return None
        found = (finder.find_spec(name, path, target) for finder in self.finders)
        return next((spec for spec in found if spec), None)

sys.meta_path[:] = [Without()]
main = importlib.import_module(sys.argv[1])
package = importlib.import_module(sys.argv[1].partition(".")[0])
for module in pkgutil.walk_packages(package.__path__, package.__name__ + "."):
    importlib.import_module(module.name)
"""


def requires(extra: str, name: str) -> Iterable[str]:
    """Return a distribution's requirements, the project's own as its file lists them now."""
    if plain(name) == "penstock":
        return [*PROJECT["dependencies"], *PROJECT["optional-dependencies"][extra]]
    try:
        return metadata.requires(name) or ()
    except metadata.PackageNotFoundError:
        return ()


@pytest.mark.parametrize("extra", PROGRAMS)
def test_a_program_imports_what_its_extra_installs(extra: str) -> None:
    installed = closure("penstock", frozenset(), lambda name: requires(extra, name))
    absent = [
        module
        for module, distributions in metadata.packages_distributions().items()
        if not {plain(name) for name in distributions} & (installed | {"penstock"})
    ]
    command = [sys.executable, "-c", IMPORT, PROGRAMS[extra], *absent]
    run = subprocess.run(command, capture_output=True, text=True, check=False, cwd=ROOT)
    assert run.returncode == 0, run.stderr[-1000:]
