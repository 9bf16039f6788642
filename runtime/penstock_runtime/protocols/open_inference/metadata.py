"""Metadata of the server and its model in the formats of KServe v2 and Triton."""

from functools import cache
from importlib.metadata import PackageNotFoundError, version
from typing import Any, Final

from penstock_api.types.model import Task
from penstock_runtime.engine.model import ModelInfo, TensorSpec

MODEL_VERSION: Final = "1"
"""The only version: another model is another pool, or a rollout."""

TEXT: Final = "text"
"""The input of a text encoder for texts; its other inputs are tokens."""

EXTENSIONS: Final = (
    "binary_tensor_data",
    "model_configuration",
    "model_repository",
    "schedule_policy",
)


def server() -> dict[str, Any]:
    """Return the answer to `GET /v2`."""
    return {"name": "penstock", "version": _version(), "extensions": list(EXTENSIONS)}


def model(info: ModelInfo) -> dict[str, Any]:
    """Return the answer to `GET /v2/models/{model}`; a text encoder takes `text` or its tokens."""
    text = [] if info.task is Task.TENSOR else [{"name": TEXT, "datatype": "BYTES", "shape": [-1]}]
    labels = {"parameters": {"labels": list(info.labels)}} if info.labels else {}
    return {
        "name": info.name,
        "versions": [MODEL_VERSION],
        "platform": info.platform,
        "inputs": [*text, *map(_tensor, info.inputs)],
        "outputs": [_tensor(spec) for spec in info.outputs],
        **labels,
    }


def configuration(info: ModelInfo, max_rows: int) -> dict[str, Any]:
    """Return the answer to `GET /v2/models/{model}/config` in Triton's format."""
    return {
        "name": info.name,
        "platform": info.platform,
        "backend": info.backend,
        "max_batch_size": max_rows,
        "input": [_configured(spec) for spec in info.inputs],
        "output": [_configured(spec) for spec in info.outputs],
    }


def repository_index(info: ModelInfo, *, ready: bool) -> list[dict[str, str]]:
    """Return the answer to `POST /v2/repository/index`."""
    state, reason = ("READY", "") if ready else ("UNAVAILABLE", "not ready")
    return [{"name": info.name, "version": MODEL_VERSION, "state": state, "reason": reason}]


@cache
def _version() -> str:
    try:
        return version("penstock")
    except PackageNotFoundError:  # run from a source tree
        return "unknown"


def _tensor(spec: TensorSpec) -> dict[str, Any]:
    return {"name": spec.name, "datatype": spec.datatype, "shape": list(spec.shape)}


def _configured(spec: TensorSpec) -> dict[str, Any]:
    return {"name": spec.name, "data_type": f"TYPE_{spec.datatype}", "dims": list(spec.shape[1:])}
