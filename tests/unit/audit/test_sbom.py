"""Bills of materials list the dependencies of an extra, and no other installed package."""

from importlib import metadata
from typing import Any

import pytest

from tests.audit.sbom import Bom, bill, closure, plain, requirements

REQUIRES = {
    "penstock": ['kopf==1; extra == "operator"', 'torch==2; extra == "runtime"', "pydantic==2"],
    "kopf": ["aiohttp>=3", "Typing_Extensions", 'uvloop; extra == "full"'],
    "aiohttp": ["yarl", 'kopf; python_version < "3"'],
    "torch": ["numpy", "penstock"],
}
NAMES = ("kopf", "torch", "pydantic", "aiohttp", "typing_extensions", "yarl", "numpy", "pytest")
WHOLE: Bom = {
    "bomFormat": "CycloneDX",
    "metadata": {"component": {"bom-ref": "root", "name": "penstock"}},
    "components": [{"bom-ref": f"{n}==1", "name": n, "version": "1"} for n in NAMES],
    "dependencies": [
        {"ref": "kopf==1", "dependsOn": ["aiohttp==1", "pytest==1"]},
        {"ref": "pytest==1"},
    ],
}


def requires(name: str) -> list[str]:
    return REQUIRES.get(name, [])


OPERATOR = closure("penstock", frozenset({"operator"}), requires)


def test_the_dependencies_of_an_extra_are_transitive() -> None:
    assert {"kopf", "pydantic", "aiohttp", "typing-extensions", "yarl"} == OPERATOR
    runtime = closure("penstock", frozenset({"runtime"}), requires)
    assert runtime == {"torch", "pydantic", "numpy"}


def test_a_bill_contains_only_these_dependencies() -> None:
    document = bill(WHOLE, "penstock-operator", OPERATOR)
    assert {plain(component["name"]) for component in document["components"]} == OPERATOR
    assert document["metadata"]["component"]["name"] == "penstock-operator"
    assert {"ref": "kopf==1", "dependsOn": ["aiohttp==1"]} in document["dependencies"]
    assert "pytest" not in str(document)
    assert "kopf==1\n" in requirements(document)


def test_a_missing_dependency_is_an_error() -> None:
    with pytest.raises(ValueError, match="left-pad not installed"):
        bill(WHOLE, "penstock-operator", OPERATOR | {"left-pad"})


def test_the_operator_does_not_depend_on_torch_nor_the_runtime_on_kopf() -> None:
    def real(name: str) -> Any:
        try:
            return metadata.requires(name) or ()
        except metadata.PackageNotFoundError:
            return ()

    operator = closure("penstock", frozenset({"operator"}), real)
    runtime = closure("penstock", frozenset({"runtime"}), real)
    assert {"kopf", "aiohttp", "pydantic", "pydantic-core"} <= operator
    assert not {"torch", "transformers", "numpy", "pytest"} & operator
    assert {"torch", "safetensors", "pydantic-core"} <= runtime
    assert not {"kopf", "kubernetes", "pytest"} & runtime
