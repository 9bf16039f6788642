from pathlib import Path

import numpy as np
import pytest
import torch

from penstock_api.types.model import ModelSpec
from penstock_runtime.engine.model import ModelLoadFailed, describe
from penstock_runtime.models.load import load
from tests.unit.runtime.models.programs import Affine, batch, export

HERE = "tests.unit.runtime.models.programs"


def from_factory(factory: str, **arguments: str) -> ModelSpec:
    module = {"factory": factory, "arguments": arguments}
    return ModelSpec.model_validate({"source": {"type": "Module", "module": module}})


def reason(spec: ModelSpec) -> str:
    with pytest.raises(ModelLoadFailed) as raised:
        load(spec, "served")
    assert "\n" not in str(raised.value)
    return str(raised.value)


def test_a_program_is_found_under_the_claims_mount(tmp_path: Path) -> None:
    (tmp_path / "deep").mkdir()
    export(tmp_path / "deep" / "m.pt2", Affine(), torch.ones(3, 4), dynamic={"x": {0: batch()}})
    claim = {"claimName": "models", "path": "deep/m.pt2"}
    spec = ModelSpec.model_validate(
        {"source": {"type": "PersistentVolumeClaim", "persistentVolumeClaim": claim}}
    )
    assert load(spec, "served", tmp_path).info.name == "served"


def test_a_plain_module_is_served_by_its_declaration() -> None:
    model = load(from_factory(f"{HERE}:declared", factor="5"), "served")
    assert (model.info.name, model.info.platform) == ("served", "pytorch_module")
    x = np.ones((2, 4), np.float32)
    assert model.run({"INPUT": x})["OUTPUT"].tolist() == [[5.0] * 4] * 2


def test_a_factory_may_return_a_model_of_its_own() -> None:
    model = load(from_factory(f"{HERE}:own"), "served")
    assert (model.info.name, model.info.max_rows, model.memory_bound_rows()) == ("served", 7, 5)


@pytest.mark.parametrize(
    ("factory", "words"),
    [
        ("no.such.module:create", "importing 'no.such.module' failed (ModuleNotFoundError"),
        (f"{HERE}:absent", "has no function 'absent': correct spec.model.source.module.factory"),
        (f"{HERE}:not_callable", "has no function 'not_callable'"),
        (f"{HERE}:raising", "raised RuntimeError: weights are missing (arguments given: none)"),
        (f"{HERE}:exiting", "raised SystemExit: 3"),
        (f"{HERE}:nothing", "returned NoneType: return a torch.nn.Module or"),
        (f"{HERE}:undeclared", "Affine has no penstock_inputs: declare it as"),
        (f"{HERE}:misdeclared", "tensor 'INPUT': datatype 'BYTES' is not served"),
        (f"{HERE}:rowless", "penstock_outputs, tensor 'OUTPUT' has shape [4]: begin with -1"),
        (f"{HERE}:garbled", "penstock_inputs is not a list of (name, datatype, shape)"),
    ],
)
def test_a_factory_that_gives_no_model_says_why_and_what_to_do(factory: str, words: str) -> None:
    why = reason(from_factory(factory))
    assert why.startswith(f"factory '{factory}'")
    assert words in why


def test_a_wrong_argument_is_named() -> None:
    why = reason(from_factory(f"{HERE}:declared", colour="red"))
    assert "unexpected keyword argument 'colour'" in why
    assert "(arguments given: colour)" in why


def test_an_error_is_described_in_one_bounded_line() -> None:
    assert describe(ValueError("first\nsecond")) == "ValueError: first"
    assert describe(ValueError()) == "ValueError"
    assert len(describe(ValueError("x" * 1000))) == 400
