"""`load_from_factory`: the model that a Python factory returns, a `Model` or a `torch.nn.Module` with declared tensors.

A plain module declares its inputs and outputs by two attributes, on the class or the instance:

    class Double(torch.nn.Module):
        penstock_inputs = [("INPUT", "FP32", [-1, 8])]
        penstock_outputs = [("OUTPUT", "FP32", [-1, 8])]
        penstock_max_rows = 512    # optional: the largest batch it accepts

        def forward(self, x): return 2 * x

`forward` is called with the inputs in declared order and returns a tensor, a tuple in declared order, or
a dict by name. Shapes begin with -1, the rows; any other -1 is a free dimension.
"""

import hashlib
import importlib
import re
from collections.abc import Callable, Iterable, Mapping
from typing import Any

import torch
from typing_extensions import override

from penstock_api.pod_contract import MAX_BATCH_SIZE
from penstock_api.types.model import ModelBackend
from penstock_runtime.engine.continuous.steps.options import DType
from penstock_runtime.engine.datatypes import numpy_dtype
from penstock_runtime.engine.dynamic.model_io import find_sample
from penstock_runtime.engine.model import Model, ModelInfo, ModelLoadFailed, TensorSpec, describe
from penstock_runtime.models.backends.array_model import ArrayModel
from penstock_runtime.models.backends.base import BackendFailed, Program
from penstock_runtime.models.backends.export import exported
from penstock_runtime.models.backends.samples import precision_error
from penstock_runtime.models.backends.source import Source
from penstock_runtime.models.device.device import backend_of, choose_device
from penstock_runtime.models.narrow_program import autocast_call, narrow_copy, narrow_model
from penstock_runtime.models.precision import is_narrow
from penstock_runtime.models.torch_model import TorchModel

_ADDRESS = re.compile(r" at 0x[0-9a-f]+")
"""Address of an object in its text, which differs from start to start."""


def load_from_factory(factory: str, arguments: Mapping[str, str]) -> Model:
    """Return the model that `package.module:function` creates from `arguments`, a module on eager torch.

    Raises:
        ModelLoadFailed: as `open_factory`.
    """
    opened = open_factory(factory, arguments)
    return opened.native_model() if isinstance(opened, FactorySource) else opened


def open_factory(
    factory: str, arguments: Mapping[str, str], dtype: DType = DType.AUTO
) -> "Model | FactorySource":
    """Return what `package.module:function` creates from `arguments`: a `Model`, or a module as a source.

    Raises:
        ModelLoadFailed: the import or the call fails, or the result declares no usable tensors.
    """
    result = _call(_find(factory), factory, arguments)
    if isinstance(result, torch.nn.Module):
        return FactorySource(result, factory, arguments, dtype)
    if isinstance(getattr(result, "info", None), ModelInfo) and callable(
        getattr(result, "run", None)
    ):
        model: Model = result
        _check_specs(model.info.inputs, "info.inputs", factory)
        _check_specs(model.info.outputs, "info.outputs", factory)
        return model
    raise ModelLoadFailed(
        f"factory '{factory}' returned {type(result).__name__}:"
        " return a torch.nn.Module or a penstock_runtime.models.base.Model"
    )


def _find(factory: str) -> Callable[..., Any]:
    module_name, _, function_name = factory.partition(":")
    try:
        module = importlib.import_module(module_name)
    except (Exception, SystemExit) as error:
        raise ModelLoadFailed(
            f"factory '{factory}': importing '{module_name}' failed ({describe(error)}):"
            " put a working module into the runtime image or on its PYTHONPATH"
        ) from error
    function = getattr(module, function_name, None)
    if not callable(function):
        raise ModelLoadFailed(
            f"factory '{factory}': module '{module_name}' has no function '{function_name}':"
            " correct spec.model.source.module.factory"
        )
    return function  # type: ignore[no-any-return]


def _call(function: Callable[..., Any], factory: str, arguments: Mapping[str, str]) -> Any:
    try:
        return function(**arguments)
    except (Exception, SystemExit) as error:
        given = ", ".join(sorted(arguments)) or "none"
        raise ModelLoadFailed(
            f"factory '{factory}' raised {describe(error)} (arguments given: {given}):"
            " correct spec.model.source.module.arguments or the factory"
        ) from error


class FactorySource(Source):
    """A module with declared tensors; eager torch runs it as it is."""

    native = ModelBackend.EAGER
    digest_is_exact = False  # code that the digest does not see may change

    def __init__(
        self,
        module: torch.nn.Module,
        factory: str,
        arguments: Mapping[str, str],
        dtype: DType = DType.AUTO,
    ) -> None:
        self.device, self.dtype = choose_device(), dtype
        self._module = module.eval().to(self.device)
        self._named = f"{factory} {sorted(arguments.items())}"
        self.info = ModelInfo(
            name=factory,
            platform="pytorch_module",
            backend=backend_of(self.device),
            inputs=_declared(module, "penstock_inputs", factory),
            outputs=_declared(module, "penstock_outputs", factory),
            max_rows=_max_rows(module, factory),
        )

    @override
    def digest(self) -> str:
        digest = hashlib.sha256(f"{self._named}\n{self._module!r}\n".encode())
        for name, state in self._module.state_dict().items():
            if isinstance(state, torch.Tensor) and not state.is_quantized:
                digest.update(f"{name} {state.dtype} {tuple(state.shape)}\n".encode())
                flat: Any = state.detach().cpu().contiguous().reshape(-1)
                digest.update(flat.view(torch.uint8).numpy())
            else:  # packed weights, and what a module stores by `get_extra_state`
                digest.update(f"{name} {_ADDRESS.sub('', repr(state))}\n".encode())
        return digest.hexdigest()

    @override
    def native_model(self) -> Model:
        if not is_narrow(self.dtype):
            return self.untouched()
        model = self._in_int8() if self.dtype is DType.INT8 else self._in_16_bits()
        self.precision_error = precision_error(self.untouched(), model, self.dtype)
        return model

    @override
    def untouched(self) -> Model:
        return TorchModel(self.info, self._call, self.device)

    @override
    def program(self) -> tuple[Program, int]:
        sample = find_sample(self.untouched()).inputs(min(3, self.info.max_rows))
        program = exported(self._module, self._call, self.info, sample)
        return Program(self.info, exported=program), 1

    @override
    def wrap(self, model: ArrayModel) -> Model:
        return model

    def _call(self, tensors: list[torch.Tensor]) -> Any:
        return self._module(*tensors)

    def _in_16_bits(self) -> Model:
        module = narrow_copy(self._module, self.dtype)
        call = autocast_call(lambda tensors: module(*tensors), self.info, self.dtype, self.device)
        return TorchModel(self.info, call, self.device)

    def _in_int8(self) -> Model:
        """Return the exported program with int8 layers: modules may read the weights of their layers."""
        try:
            program, _ = self.program()
        except BackendFailed as error:
            raise ModelLoadFailed(
                f"the model does not compute in {self.dtype}: {error}: set spec.model.dtype to BFloat16"
            ) from error
        assert program.exported is not None  # noqa: S101 - a module has no file
        graph: Any = program.exported.module()
        return narrow_model(
            lambda tensors: graph(*tensors), graph, self.info, self.dtype, self.device
        )


def _declared(module: torch.nn.Module, attribute: str, factory: str) -> tuple[TensorSpec, ...]:
    declared = getattr(module, attribute, None)
    if not isinstance(declared, Iterable):
        raise ModelLoadFailed(
            f"factory '{factory}': {type(module).__name__} has no {attribute}:"
            ' declare it as [("NAME", "FP32", [-1, 8]), ...]'
        )
    try:
        specs = tuple(_spec(entry) for entry in declared)
    except (TypeError, ValueError) as error:
        raise ModelLoadFailed(
            f"factory '{factory}': {attribute} is not a list of (name, datatype, shape): {describe(error)}"
        ) from error
    _check_specs(specs, attribute, factory)
    return specs


def _spec(declared: Any) -> TensorSpec:
    if isinstance(declared, TensorSpec):
        return declared
    name, datatype, shape = declared
    return TensorSpec(str(name), str(datatype), tuple(int(size) for size in shape))


def _check_specs(specs: tuple[TensorSpec, ...], attribute: str, factory: str) -> None:
    """Reject specs that no request can match."""
    where = f"factory '{factory}': {attribute}"
    names = [spec.name for spec in specs]
    if not specs or len(set(names)) != len(names):
        raise ModelLoadFailed(f"{where} needs at least one tensor, each with a unique name")
    for spec in specs:
        try:
            numpy_dtype(spec.datatype)
        except ValueError as error:
            raise ModelLoadFailed(f"{where}, tensor '{spec.name}': {error}") from error
        if not spec.shape or spec.shape[0] != -1 or any(n < 1 and n != -1 for n in spec.shape[1:]):
            raise ModelLoadFailed(
                f"{where}, tensor '{spec.name}' has shape {list(spec.shape)}:"
                " begin with -1 for the rows, then sizes of at least 1, or -1 where free"
            )


def _max_rows(module: torch.nn.Module, factory: str) -> int:
    rows = getattr(module, "penstock_max_rows", MAX_BATCH_SIZE)
    if not isinstance(rows, int) or rows < 1:
        raise ModelLoadFailed(
            f"factory '{factory}': penstock_max_rows must be at least 1, got {rows!r}"
        )
    return min(rows, MAX_BATCH_SIZE)
