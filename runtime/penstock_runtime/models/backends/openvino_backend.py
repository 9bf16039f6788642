"""`OpenVinoProgramBackend`: a model as one graph of OpenVINO's CPU plugin."""

import io
import logging
import sys
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import Any

import numpy as np
from torch.export import ExportedProgram
from typing_extensions import override

from penstock_api.types.model import ModelBackend
from penstock_runtime.engine.continuous.steps.options import DType
from penstock_runtime.engine.model import ModelInfo
from penstock_runtime.models.backends.base import Backend, BackendFailed, Call, Program
from penstock_runtime.request import Tensor

_FILE = "model.blob"
_HINTS = {DType.FLOAT16: "f16", DType.BFLOAT16: "bf16"}
_CAPABILITIES = {DType.FLOAT16: "FP16", DType.BFLOAT16: "BF16"}
"""Names of the types in the properties of OpenVINO's CPU plugin."""
_GROUP_SIZE = "32"
"""Successive inputs of a product in int8 that share a scale, which the plugin finds at each call; without VNNI it keeps the inputs in float32."""
_MATRIX, _MAX_INT8, _MIN_SCALE = 2, np.float32(127), np.float32(1e-12)
_NAMING = ("conversion rule", "operation", "aten")
"""Words of the lines of a message that name an operator, those that say the most first."""
_REASON_CHARACTERS = 400
_CONVERTER, _TELEMETRY = "openvino.tools.ovc", "openvino_telemetry"


class OpenVinoProgramBackend(Backend):
    """OpenVINO, from a torch program, an `.onnx` file or an IR, in float32, a 16-bit type or int8."""

    name = ModelBackend.OPENVINO
    packages = ("openvino",)
    is_machine_code = False

    def __init__(self, dtype: DType = DType.AUTO) -> None:
        self._dtype = dtype

    @override
    def build(self, program: Program, folder: Path, threads: int) -> None:
        _check_computes(self._dtype)
        with openvino_errors("compile it"):
            graph = read(program.file or program.exported)
            if self._dtype is DType.INT8 and not int8_weights(graph):
                raise BackendFailed("it has no product with a constant matrix, which int8 is for")
            blob = _compile(graph, program.info, threads, self._dtype).export_model().getvalue()
        (folder / _FILE).write_bytes(blob)

    @override
    def open(self, folder: Path, info: ModelInfo, threads: int) -> Call:
        with openvino_errors("read its own file"):
            blob = io.BytesIO((folder / _FILE).read_bytes())
            return _call_of(
                openvino().Core().import_model(blob, "CPU", _properties(threads, self._dtype))
            )


def compiled(graph: Any, info: ModelInfo, threads: int) -> Call:
    """Return the call of a graph that `read` returned. Raises `BackendFailed`."""
    with openvino_errors("compile it"):
        return _call_of(_compile(graph, info, threads))


@contextmanager
def openvino_errors(what: str) -> Iterator[None]:
    """Convert all errors of OpenVINO to `BackendFailed`; those of its frontends derive from Exception directly."""
    try:
        yield
    except BackendFailed:
        raise
    except Exception as error:
        raise BackendFailed(f"OpenVINO cannot {what}: {_reason(error)}") from error


def openvino() -> Any:
    """Return the module, imported on demand and without its converter, which only `read` needs."""
    sys.modules.setdefault(_CONVERTER, None)  # type: ignore[arg-type]
    import openvino as ov  # noqa: PLC0415 - a third of a second, for pods that use it

    return ov


def read(source: Path | ExportedProgram | None) -> Any:
    """Return a file (IR or `.onnx`) or a torch program as OpenVINO's graph; for use within `openvino_errors`."""
    ov = openvino()
    if isinstance(source, Path):
        return ov.Core().read_model(source)
    if sys.modules.get(_CONVERTER) is None:
        del sys.modules[_CONVERTER]
    sys.modules[_TELEMETRY] = None  # type: ignore[assignment]  # it reports to the vendor over the network
    from openvino.tools.ovc import convert_model  # noqa: PLC0415 - as above

    with _kept_root_logger():
        return convert_model(source)


@contextmanager
def _kept_root_logger() -> Iterator[None]:
    """Restore the level, filters and handlers of the root logger, which a conversion that fails leaves at ERROR."""
    root = logging.getLogger()
    level, filters, handlers = root.level, root.filters[:], root.handlers[:]
    try:
        yield
    finally:
        root.setLevel(level)
        root.filters[:], root.handlers[:] = filters, handlers


def int8_weights(graph: Any) -> int:
    """Store the constant matrices of a graph's products in int8, with a scale for each output; return their number.

    It is the form of NNCF's symmetric compression, which OpenVINO multiplies without widening it.
    """
    from openvino import opset15 as ops  # noqa: PLC0415 - as above

    count = 0
    for node in graph.get_ordered_ops():
        if node.get_type_name() != "MatMul":
            continue
        weight = _constant(node.input_value(1).get_node())
        if weight is None or weight.ndim != _MATRIX:
            continue
        inner = 1 if node.get_attributes()["transpose_b"] else 0
        scale = np.maximum(np.abs(weight).max(inner, keepdims=True) / _MAX_INT8, _MIN_SCALE)
        integers = ops.constant(np.round(weight / scale).astype(np.int8))
        widened = ops.multiply(ops.convert(integers, "f32"), ops.constant(scale))
        if (kind := node.get_input_element_type(1).to_string()) != "f32":
            widened = ops.convert(widened, kind)
        node.input(1).replace_source_output(widened.output(0))
        count += 1
    return count


def _constant(node: Any) -> Tensor | None:
    """Return the float values of a constant, which the files may store in 16 bits; None for any other node."""
    while node.get_type_name() == "Convert":
        node = node.input_value(0).get_node()
    if node.get_type_name() != "Constant" or not node.get_element_type().is_real():
        return None
    return np.asarray(node.get_data(dtype=np.float32))  # `data` has the bits of bfloat16 as float16


def _reason(error: Exception) -> str:
    """Return the line of OpenVINO's message that names an operator, or the last one: the first ones name its source files."""
    lines = [line.strip("- ") for line in str(error).splitlines() if line.strip("- ")]
    named = [line for word in _NAMING for line in lines if word in line.lower()]
    line = (named or lines[-1:] or [""])[0]
    return f"{type(error).__name__}: {line}"[:_REASON_CHARACTERS]


def _check_computes(dtype: DType) -> None:
    """Raise `BackendFailed` if this processor has no instructions of the type, which OpenVINO would silently widen."""
    capability = _CAPABILITIES.get(dtype)
    if capability is None:
        return
    if capability not in openvino().Core().get_property("CPU", "OPTIMIZATION_CAPABILITIES"):
        raise BackendFailed(f"this processor has no {dtype} instructions that OpenVINO uses")


def _compile(graph: Any, info: ModelInfo, threads: int, dtype: DType = DType.AUTO) -> Any:
    """Compile with the declared sizes, which conversion from torch loses."""
    if len(graph.inputs) != len(info.inputs) or len(graph.outputs) != len(info.outputs):
        raise BackendFailed(
            f"OpenVINO's graph has {len(graph.inputs)} inputs and {len(graph.outputs)} outputs,"
            f" the model {len(info.inputs)} and {len(info.outputs)}"
        )
    sizes = {node: list(spec.shape) for node, spec in zip(graph.inputs, info.inputs, strict=True)}
    graph.reshape(sizes)
    return openvino().Core().compile_model(graph, "CPU", _properties(threads, dtype))


def _call_of(compiled_model: Any) -> Call:
    request: Any = compiled_model.create_infer_request()
    tensor, outputs = openvino().Tensor, range(len(compiled_model.outputs))

    def call(arrays: list[Tensor]) -> list[Tensor]:
        # infer(arrays) takes 60 us more to find out what they are; a received body is read-only. The request holds no
        # reference to the memory that it reads.
        writeable = [array if array.flags.writeable else array.copy() for array in arrays]
        for index, array in enumerate(writeable):
            request.set_input_tensor(index, tensor(array, shared_memory=True))
        request.infer(share_outputs=True)
        return [np.array(request.get_output_tensor(index).data) for index in outputs]

    return call


def _properties(threads: int, dtype: DType) -> dict[str, str]:
    # Without the hint a processor with bfloat16 would compute in it. No pinning: it would pin the first thread of
    # every pod on a node to the same core.
    quantized = {"DYNAMIC_QUANTIZATION_GROUP_SIZE": _GROUP_SIZE} if dtype is DType.INT8 else {}
    return {
        **quantized,
        "INFERENCE_PRECISION_HINT": _HINTS.get(dtype, "f32"),
        "INFERENCE_NUM_THREADS": str(threads),
        "NUM_STREAMS": "1",
        "ENABLE_CPU_PINNING": "NO",
    }
