"""`OnnxRuntimeBackend`: a model in ONNX Runtime on its CPU provider, from an `.onnx` file or exported from torch."""

import logging
from pathlib import Path
from typing import Any

from typing_extensions import override

from penstock_api.types.model import ModelBackend
from penstock_runtime.engine.continuous.steps.options import DType
from penstock_runtime.engine.model import ModelInfo, describe
from penstock_runtime.models.backends.base import (
    Backend,
    BackendFailed,
    Call,
    Program,
    check_installed,
)
from penstock_runtime.models.device.processor import has_int8_products
from penstock_runtime.models.precision import is_narrow
from penstock_runtime.request import Tensor

EXPORTERS = ("onnx", "onnxscript")
"""Packages that `torch.onnx.export` needs; an `.onnx` file does not."""
_FILE, _WEIGHTS = "model.onnx", "weights.bin"
_ERRORS_ONLY = 3
_INTEGER_PRODUCTS = frozenset({"MatMulInteger", "DynamicQuantizeMatMul", "QGemm"})


class OnnxRuntimeBackend(Backend):
    """ONNX Runtime; its files are the graph that it has optimized for this processor."""

    name = ModelBackend.ONNX_RUNTIME
    packages = ("onnxruntime",)
    is_machine_code = False

    def __init__(self, dtype: DType = DType.AUTO) -> None:
        self._dtype = dtype

    @override
    def build(self, program: Program, folder: Path, threads: int) -> None:
        if is_narrow(self._dtype) and self._dtype is not DType.INT8:
            raise BackendFailed(
                f"it computes in float32 and int8 on CPUs, and spec.model.dtype is {self._dtype}"
            )
        if program.file is not None and program.file.suffix != ".onnx":
            raise BackendFailed("ONNX Runtime reads no OpenVINO IR")
        source = program.file or _export(program, folder / "exported.onnx")
        if self._dtype is DType.INT8:
            source = _quantized(source, folder / "exported.onnx.int8")
        session(source, threads, optimized=folder / _FILE)
        for left in folder.glob("exported.onnx*"):
            left.unlink()

    @override
    def open(self, folder: Path, info: ModelInfo, threads: int) -> Call:
        return call_of(session(folder / _FILE, threads, optimize=False), info)


def session(
    file: Path, threads: int, *, optimize: bool = True, optimized: Path | None = None
) -> Any:
    """Return a session over `file`; `optimized` is where the optimized graph is written.

    Raises:
        BackendFailed: the file or an operator of it is not supported.
    """
    import onnxruntime  # noqa: PLC0415 - for pods that use it

    onnxruntime.set_default_logger_severity(_ERRORS_ONLY)
    levels = onnxruntime.GraphOptimizationLevel
    options = onnxruntime.SessionOptions()
    options.intra_op_num_threads, options.inter_op_num_threads = threads, 1
    options.log_severity_level = _ERRORS_ONLY
    options.graph_optimization_level = levels.ORT_ENABLE_ALL if optimize else levels.ORT_DISABLE_ALL
    # threads that wait for work in a loop would take the cores of the HTTP side
    options.add_session_config_entry("session.intra_op.allow_spinning", "0")
    if optimized is not None:
        options.optimized_model_filepath = str(optimized)
        options.add_session_config_entry(
            "session.optimized_model_external_initializers_file_name", _WEIGHTS
        )
    try:
        return onnxruntime.InferenceSession(str(file), options, providers=["CPUExecutionProvider"])
    except Exception as error:  # its errors have no common type
        raise BackendFailed(f"ONNX Runtime cannot load it: {describe(error)}") from error


def call_of(opened: Any, info: ModelInfo) -> Call:
    """Return the call of a session, whose inputs and outputs are in declared order."""
    names = [node.name for node in opened.get_inputs()]
    outputs = [node.name for node in opened.get_outputs()]
    if len(names) != len(info.inputs) or len(outputs) != len(info.outputs):
        raise BackendFailed(
            f"the graph has {len(names)} inputs and {len(outputs)} outputs,"
            f" the model {len(info.inputs)} and {len(info.outputs)}"
        )

    def call(arrays: list[Tensor]) -> list[Tensor]:
        results: list[Tensor] = opened.run(outputs, dict(zip(names, arrays, strict=True)))
        return results

    return call


def _quantized(source: Path, file: Path) -> Path:
    """Write a graph whose products with constant matrices are in int8: weights by column, inputs by their range at each call."""
    check_installed(EXPORTERS[:1])
    import onnx  # noqa: PLC0415 - only to quantize
    from onnxruntime.quantization import QuantType, quantize_dynamic  # noqa: PLC0415 - as above

    root = logging.getLogger()
    root.addFilter(_is_error)  # the quantizer recommends its preparation to the log of every pod
    try:
        quantize_dynamic(
            onnx.load(source), file, op_types_to_quantize=["MatMul", "Gemm"], per_channel=True,
            reduce_range=not has_int8_products(), weight_type=QuantType.QInt8,
            extra_options={"MatMulConstBOnly": True},
        )  # fmt: skip
        operators = {node.op_type for node in onnx.load(file, load_external_data=False).graph.node}
    except Exception as error:  # the quantizer raises what its parts raise
        raise BackendFailed(f"ONNX Runtime cannot quantize it: {describe(error)}") from error
    finally:
        root.removeFilter(_is_error)
    if not operators & _INTEGER_PRODUCTS:
        raise BackendFailed("it has no product with a constant matrix, which int8 is for")
    return file


def _is_error(record: logging.LogRecord) -> bool:
    return record.levelno >= logging.ERROR


def _export(program: Program, file: Path) -> Path:
    check_installed(EXPORTERS)
    import torch  # noqa: PLC0415 - only to export

    for talkative in ("torch.onnx", "onnx_ir", "onnxscript"):
        logging.getLogger(talkative).setLevel(logging.ERROR)
    assert program.exported is not None  # noqa: S101 - a program without a file has it
    try:
        exported = torch.onnx.export(program.exported, dynamo=True, verbose=False)
        assert exported is not None  # noqa: S101 - dynamo=True returns it
        exported.save(file)
    except Exception as error:  # the exporter raises what its parts raise
        raise BackendFailed(f"torch cannot export it to ONNX: {describe(error)}") from error
    return file
