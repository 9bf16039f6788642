"""Sources of models in files of other frameworks: `OnnxSource` (`.onnx`) and `OpenVinoSource` (`.xml` with `.bin`).

Inputs and outputs have the names in the file. The first dimension of each is the rows: dynamic, or 1 for row by row.
"""

from abc import abstractmethod
from functools import cached_property
from pathlib import Path
from types import MappingProxyType
from typing import Any

import torch
from typing_extensions import override

from penstock_api.pod_contract import MAX_BATCH_SIZE
from penstock_api.types.model import ModelBackend
from penstock_runtime.engine.continuous.steps.options import DType
from penstock_runtime.engine.model import Model, ModelInfo, ModelLoadFailed, TensorSpec
from penstock_runtime.models.backends import onnx_runtime, openvino_backend
from penstock_runtime.models.backends.array_model import ArrayModel
from penstock_runtime.models.backends.base import BackendFailed, Call, Program, check_installed
from penstock_runtime.models.backends.cache import digest_of
from penstock_runtime.models.backends.source import Source
from penstock_runtime.models.device.device import choose_device

_DATATYPES = MappingProxyType(
    {
        "tensor(bool)": "BOOL", "tensor(uint8)": "UINT8", "tensor(int8)": "INT8", "tensor(int16)": "INT16",
        "tensor(int32)": "INT32", "tensor(int64)": "INT64", "tensor(float16)": "FP16", "tensor(float)": "FP32",
        "tensor(double)": "FP64",
        "boolean": "BOOL", "u8": "UINT8", "i8": "INT8", "i16": "INT16", "i32": "INT32", "i64": "INT64", "f16": "FP16",
        "f32": "FP32", "f64": "FP64",
    }
)  # fmt: skip
"""Datatypes of both formats."""
_NO_BOUND = 2**31 - 1


class FileSource(Source):
    """A model in a file of its own format."""

    digest_is_exact = True
    device = torch.device("cpu")
    platform: str
    files: str

    def __init__(self, file: Path, threads: int, dtype: DType = DType.AUTO) -> None:
        """Raise `ModelLoadFailed` if the file is missing, or the pod has a GPU."""
        self.file, self.threads, self.dtype = file, threads, dtype
        if not file.is_file():
            raise ModelLoadFailed(
                f"there is no file '{file}': correct the path in spec.model.source, or put {self.files} there"
            )
        if choose_device().type != "cpu":
            raise ModelLoadFailed(
                f"file '{file}' runs on CPUs only, and this pod has a GPU: set spec.accelerator.count to 0,"
                " or export the model with torch.export.save"
            )

    @override
    def digest(self) -> str:
        parts = self.file.parent.glob(f"{self.file.stem}*")
        return digest_of(sorted(path for path in parts if path.is_file()), self.file.parent)

    @override
    def program(self) -> tuple[Program, int]:
        return Program(self.info, file=self.file), 1

    @override
    def wrap(self, model: ArrayModel) -> Model:
        return model

    @cached_property
    def info(self) -> ModelInfo:
        """The declared tensors."""
        inputs, outputs = self.tensors()
        ranges = {shape[0] if shape else (0, 0) for _, _, shape in inputs}
        if len(ranges) != 1 or (rows_range := next(iter(ranges)))[0] != 1:
            rows = ", ".join(f"{name}: {self._shape(shape)}" for name, _, shape in inputs)
            raise ModelLoadFailed(
                f"file '{self.file}': the first dimension of its inputs ({rows}) is not a dynamic number of rows:"
                " export it with a dynamic batch dimension"
            )
        return ModelInfo(
            name=self.file.stem,
            platform=self.platform,
            backend="cpu",
            inputs=tuple(self._spec("input", *each, rows_range) for each in inputs),
            outputs=tuple(self._spec("output", *each, rows_range) for each in outputs),
            max_rows=min(rows_range[1], MAX_BATCH_SIZE),
        )

    @abstractmethod
    def tensors(self) -> "tuple[list[_Declared], list[_Declared]]":
        """Return name, type and ranges of the dimensions of each input and output. Raises `ModelLoadFailed`."""

    def _spec(
        self, kind: str, name: str, type: str, shape: "_Shape", rows: tuple[int, int]
    ) -> TensorSpec:
        where = f"file '{self.file}': {kind} '{name}'"
        datatype = _DATATYPES.get(type)
        if datatype is None:
            served = ", ".join(dict.fromkeys(_DATATYPES.values()))
            raise ModelLoadFailed(
                f"{where} is {type}, which is not served: use tensors of {served}"
            )
        if not shape or shape[0][0] != 1 or (shape[0][1] == 1 and rows[1] != 1):
            raise ModelLoadFailed(
                f"{where} has shape {self._shape(shape)}, whose first dimension is not the rows:"
                " export it with a dynamic batch dimension"
            )
        sizes = (least if least == most else -1 for least, most in shape[1:])
        return TensorSpec(name, datatype, (-1, *sizes), tuple(shape))

    def _shape(self, shape: "_Shape") -> list[Any]:
        return [least if least == most else "?" for least, most in shape]

    def _unreadable(self, error: BackendFailed) -> ModelLoadFailed:
        return ModelLoadFailed(f"file '{self.file}': {error}")


_Shape = list[tuple[int, int]]
_Declared = tuple[str, str, _Shape]


class OnnxSource(FileSource):
    """An `.onnx` file, with external data next to it if it has any; the reference is its graph without optimization."""

    native = ModelBackend.ONNX_RUNTIME
    platform = "onnxruntime_onnx"
    files = "the .onnx file"

    @override
    def native_model(self) -> Model:
        return ArrayModel(self.info, self._call(optimize=True))

    @override
    def untouched(self) -> Model:
        return ArrayModel(self.info, self._call(optimize=False))

    @override
    def tensors(self) -> tuple[list[_Declared], list[_Declared]]:
        opened = self._session(optimize=False)
        return self._declared(opened.get_inputs()), self._declared(opened.get_outputs())

    def _declared(self, nodes: list[Any]) -> list[_Declared]:
        return [
            (
                node.name,
                node.type,
                [
                    (size, size) if isinstance(size, int) else (1, _NO_BOUND)
                    for size in (node.shape or ())
                ],
            )
            for node in nodes
        ]

    def _call(self, *, optimize: bool) -> Call:
        return onnx_runtime.call_of(self._session(optimize=optimize), self.info)

    def _session(self, *, optimize: bool) -> Any:
        try:
            check_installed(onnx_runtime.OnnxRuntimeBackend.packages)
            return onnx_runtime.session(self.file, self.threads, optimize=optimize)
        except BackendFailed as error:
            raise self._unreadable(error) from error


class OpenVinoSource(FileSource):
    """An OpenVINO IR; OpenVINO is the only reader, so the model is its own reference."""

    native = ModelBackend.OPENVINO
    platform = "openvino"
    files = "the .xml and .bin files"

    @override
    def native_model(self) -> Model:
        try:
            return ArrayModel(
                self.info, openvino_backend.compiled(self._graph, self.info, self.threads)
            )
        except BackendFailed as error:
            raise self._unreadable(error) from error

    @override
    def untouched(self) -> Model:
        return self.native_model()

    @override
    def tensors(self) -> tuple[list[_Declared], list[_Declared]]:
        return self._declared(self._graph.inputs), self._declared(self._graph.outputs)

    def _declared(self, nodes: list[Any]) -> list[_Declared]:
        return [
            (
                node.get_any_name(),
                node.get_element_type().to_string(),
                [
                    (max(1, size.get_min_length()), _bound(size.get_max_length()))
                    for size in node.get_partial_shape()
                ],
            )
            for node in nodes
        ]

    @cached_property
    def _graph(self) -> Any:
        try:
            with openvino_backend.openvino_errors("read it"):
                return openvino_backend.read(self.file)
        except BackendFailed as error:
            raise self._unreadable(error) from error


def _bound(most: int) -> int:
    """Return the greatest size; an open one is -1 for OpenVINO."""
    return _NO_BOUND if most < 0 else most
