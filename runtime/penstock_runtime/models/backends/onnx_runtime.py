"""`OnnxRuntimeBackend`: a model in ONNX Runtime on its CPU provider, from an `.onnx` file or exported from torch."""

import logging
from pathlib import Path
from typing import Any

from typing_extensions import override

from penstock_api.types.model import ModelBackend
from penstock_runtime.engine.model import ModelInfo, describe
from penstock_runtime.models.backends.base import (
    Backend,
    BackendFailed,
    Call,
    Program,
    check_installed,
)
from penstock_runtime.request import Tensor

EXPORTERS = ("onnx", "onnxscript")
"""Packages that `torch.onnx.export` needs; an `.onnx` file does not."""
_FILE, _WEIGHTS = "model.onnx", "weights.bin"
_ERRORS_ONLY = 3


class OnnxRuntimeBackend(Backend):
    """ONNX Runtime; its files are the graph that it has optimized for this processor."""

    name = ModelBackend.ONNX_RUNTIME
    packages = ("onnxruntime",)
    is_machine_code = False

    @override
    def build(self, program: Program, folder: Path, threads: int) -> None:
        if program.file is not None and program.file.suffix != ".onnx":
            raise BackendFailed("ONNX Runtime reads no OpenVINO IR")
        source = program.file or _export(program, folder / "exported.onnx")
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
