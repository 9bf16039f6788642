"""Models from a `torch.export` program (`.pt2`), whose metadata defines the tensors served.

Inputs have the names of the exported `forward`; outputs the keys of a returned dict, or `output`, or `output_0`,
`output_1` and so on for a tuple. The first dimension of each is the rows: one dynamic dimension
(`dynamic_shapes={"x": {0: torch.export.Dim("batch", max=512)}}`), whose range limits the batch.
"""

from dataclasses import dataclass
from functools import cached_property
from pathlib import Path
from typing import Any

import torch
from torch.export import ExportedProgram
from torch.export.passes import move_to_device_pass
from torch.utils import _pytree as pytree
from typing_extensions import override

from penstock_api.pod_contract import MAX_BATCH_SIZE
from penstock_api.types.model import ModelBackend
from penstock_runtime.engine.continuous.steps.options import DType
from penstock_runtime.engine.model import Model, ModelInfo, ModelLoadFailed, TensorSpec, describe
from penstock_runtime.models.backends.array_model import ArrayModel
from penstock_runtime.models.backends.base import Program
from penstock_runtime.models.backends.cache import digest_of
from penstock_runtime.models.backends.samples import precision_error
from penstock_runtime.models.backends.source import Source
from penstock_runtime.models.device.device import backend_of, choose_device
from penstock_runtime.models.device.tensors import datatype_of_torch
from penstock_runtime.models.narrow_program import narrow_model
from penstock_runtime.models.precision import is_narrow
from penstock_runtime.models.torch_model import TorchModel

_REMEDY = 'export it with dynamic_shapes that make dimension 0 of every input one torch.export.Dim("batch")'
_ANY_SIZE = 2**31 - 1


@dataclass(frozen=True, slots=True)
class Rows:
    """Batch dimension of a program."""

    symbol: object
    """Symbol of the dimension; None: one fixed row."""
    min: int
    max: int


def load_program(file: Path) -> Model:
    """Return the model in `file`, on eager torch.

    Raises:
        ModelLoadFailed: the file is missing or not a program, or its tensors have no common batch dimension.
    """
    return ProgramSource(file).native_model()


class ProgramSource(Source):
    """A `.pt2` program; eager torch runs it as it was exported."""

    native = ModelBackend.EAGER
    digest_is_exact = True

    def __init__(self, file: Path, dtype: DType = DType.AUTO) -> None:
        self._file, self.dtype = file, dtype
        self.device = choose_device()

    @override
    def digest(self) -> str:
        _check_exists(self._file)
        return digest_of([self._file])

    @override
    def native_model(self) -> Model:
        if not is_narrow(self.dtype):
            return self.untouched()
        call = _Call(self._program, self._rows.min, self.device)
        model = narrow_model(call, call.module, self.info, self.dtype, self.device)
        self.precision_error = precision_error(self.untouched(), model, self.dtype)
        return model

    @override
    def untouched(self) -> Model:
        call = _Call(self._program, self._rows.min, self.device)
        return TorchModel(self.info, call, self.device)

    @override
    def program(self) -> tuple[Program, int]:
        return Program(self.info, exported=self._program), self._rows.min

    @override
    def wrap(self, model: ArrayModel) -> Model:
        return model

    @cached_property
    def info(self) -> ModelInfo:
        """The declared tensors."""
        program, file, rows = self._program, self._file, self._rows
        inputs, outputs = _input_values(program, file), _output_values(program, file)
        return ModelInfo(
            name=file.stem,
            platform="pytorch_torch_export",
            backend=backend_of(self.device),
            inputs=_specs(inputs, program, rows, file, "input"),
            outputs=_specs(outputs, program, rows, file, "output"),
            max_rows=rows.max,
        )

    @cached_property
    def _program(self) -> ExportedProgram:
        return _read(self._file)

    @cached_property
    def _rows(self) -> Rows:
        return _rows(self._program, _input_values(self._program, self._file), self._file)


def _check_exists(file: Path) -> None:
    if not file.is_file():
        raise ModelLoadFailed(
            f"there is no file '{file}': correct the path in spec.model.source,"
            " or put the program there"
        )


def _read(file: Path) -> ExportedProgram:
    _check_exists(file)
    try:
        return torch.export.load(file)
    except Exception as error:
        raise ModelLoadFailed(
            f"file '{file}' is not a torch.export program ({describe(error)}):"
            " write it with torch.export.save of a torch version that this runtime reads"
        ) from error


def _input_values(program: ExportedProgram, file: Path) -> dict[str, Any]:
    values = {
        node.name: node.meta.get("val") for node in program.graph.nodes if node.op == "placeholder"
    }
    names = program.graph_signature.user_inputs
    for name in names:
        if not isinstance(values.get(str(name)), torch.Tensor):
            raise ModelLoadFailed(
                f"file '{file}': input '{name}' is not a tensor: export with tensors only"
            )
    if not names:
        raise ModelLoadFailed(f"file '{file}' takes no inputs: export a forward that takes tensors")
    return {str(name): values[str(name)] for name in names}


def _output_values(program: ExportedProgram, file: Path) -> dict[str, Any]:
    values = {node.name: node.meta.get("val") for node in program.graph.nodes}
    outputs = [values.get(str(name)) for name in program.graph_signature.user_outputs]
    names = _output_names(program.call_spec.out_spec, len(outputs))
    if not outputs:
        raise ModelLoadFailed(
            f"file '{file}' returns nothing: export a forward that returns tensors"
        )
    for name, value in zip(names, outputs, strict=True):
        if not isinstance(value, torch.Tensor):
            raise ModelLoadFailed(
                f"file '{file}': output '{name}' is not a tensor: return tensors only"
            )
    return dict(zip(names, outputs, strict=True))


def _output_names(out_spec: Any, count: int) -> list[str]:
    if out_spec is not None and out_spec.type is dict and len(out_spec.context) == count:
        return [str(key) for key in out_spec.context]
    return ["output"] if count == 1 else [f"output_{index}" for index in range(count)]


def _rows(program: ExportedProgram, inputs: dict[str, Any], file: Path) -> Rows:
    firsts = {name: value.shape[0] if value.dim() else None for name, value in inputs.items()}
    symbols = {_symbol(first) for first in firsts.values()}
    if symbols == {1}:
        return Rows(symbol=None, min=1, max=1)
    symbol = symbols.pop()
    if symbols or symbol not in program.range_constraints:
        raise ModelLoadFailed(
            f"file '{file}': dimension 0 of its inputs is"
            f" {', '.join(f'{name}: {first}' for name, first in firsts.items())}: {_REMEDY}"
        )
    bounds = program.range_constraints[symbol]
    return Rows(symbol, max(1, int(bounds.lower)), min(_upper_bound(bounds.upper), MAX_BATCH_SIZE))


def _symbol(size: Any) -> Any:
    return size.node.expr if isinstance(size, torch.SymInt) else size


def _upper_bound(upper: Any) -> int:
    """Return the bound as an int; an open range has torch's own infinity."""
    return int(upper) if upper.is_Integer and upper < _ANY_SIZE else _ANY_SIZE


def _specs(
    values: dict[str, Any], program: ExportedProgram, rows: Rows, file: Path, kind: str
) -> tuple[TensorSpec, ...]:
    return tuple(
        _spec(name, value, program, rows, f"file '{file}': {kind} '{name}'")
        for name, value in values.items()
    )


def _spec(
    name: str, value: torch.Tensor, program: ExportedProgram, rows: Rows, where: str
) -> TensorSpec:
    first = _symbol(value.shape[0]) if value.dim() else None
    if first != (1 if rows.symbol is None else rows.symbol):
        raise ModelLoadFailed(
            f"{where} has shape {tuple(value.shape)}, the first dimension is not the rows: {_REMEDY}"
        )
    try:
        datatype = datatype_of_torch(value.dtype)
    except ValueError as error:
        raise ModelLoadFailed(f"{where}: {error}") from error
    free = (-1 if isinstance(size, torch.SymInt) else int(size) for size in value.shape[1:])
    bounds = tuple(_bounds(size, program) for size in value.shape)
    return TensorSpec(name, datatype, (-1, *free), bounds)


def _bounds(size: Any, program: ExportedProgram) -> tuple[int, int]:
    """Return the range of a dimension; a dimension computed from others is unrestricted."""
    if not isinstance(size, torch.SymInt):
        return int(size), int(size)
    known = program.range_constraints.get(_symbol(size))
    return (
        (1, _ANY_SIZE) if known is None else (max(1, int(known.lower)), _upper_bound(known.upper))
    )


class _Call:
    """The program's forward over flat tensors, padded to its minimum number of rows."""

    def __init__(self, program: ExportedProgram, min_rows: int, device: torch.device) -> None:
        if device.type != "cpu":
            program = move_to_device_pass(program, device)
        self.module: Any = program.module()
        self._in_spec = program.call_spec.in_spec
        self._min_rows = min_rows

    def __call__(self, tensors: list[torch.Tensor]) -> list[Any]:
        rows = tensors[0].shape[0]
        missing = self._min_rows - rows
        if missing > 0:  # exports with Dim.AUTO have a minimum of 2
            tensors = [
                torch.cat([tensor, tensor[-1:].expand(missing, *tensor.shape[1:])])
                for tensor in tensors
            ]
        arguments, keywords = pytree.tree_unflatten(tensors, self._in_spec)
        leaves = pytree.tree_leaves(self.module(*arguments, **keywords))
        return [leaf[:rows] for leaf in leaves] if missing > 0 else leaves
