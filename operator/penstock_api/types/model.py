"""`ModelSpec`: the model of a pool, its task and its source."""

from enum import StrEnum
from typing import Annotated

from pydantic import ConfigDict, Field

from penstock_api.base import ApiModel
from penstock_api.types.fields import rule, rules
from penstock_api.types.sources import ModelSource


class Task(StrEnum):
    """Task of a model, which determines its protocols."""

    TENSOR = "Tensor"
    TEXT_GENERATION = "TextGeneration"
    EMBEDDING = "Embedding"
    CLASSIFICATION = "Classification"


class ModelDType(StrEnum):
    """Data type in which a model computes."""

    AUTO = "Auto"
    FLOAT32 = "Float32"
    FLOAT16 = "Float16"
    BFLOAT16 = "BFloat16"
    INT8 = "Int8"


class ModelBackend(StrEnum):
    """Backend that runs a model of the tasks Tensor, Embedding and Classification."""

    AUTO = "Auto"
    EAGER = "Eager"
    COMPILE = "Compile"
    OPENVINO = "OpenVINO"
    ONNX_RUNTIME = "ONNXRuntime"


_TASK = "(has({0}.task) ? {0}.task : 'Tensor')"
_PROGRAMS = (".pt2", ".onnx", ".xml")
_FILES = ("persistentVolumeClaim", "huggingFace", "image", "s3")
_DIRECTORY_TYPES = "PersistentVolumeClaim, HuggingFace, Image or S3"


def _path_matches_task(member: str) -> dict[str, str]:
    source = f"self.source.{member}"
    path = f"(has({source}.path) ? {source}.path : '.')"
    is_program = " || ".join(f"{path}.endsWith('{suffix}')" for suffix in _PROGRAMS)
    return rule(
        f"!has({source}) || ({_TASK.format('self')} == 'Tensor' ? {is_program} : !{path}.endsWith('.pt2'))",
        "path %s does not match task %s: a program (.pt2, .onnx or .xml) is for task Tensor, a directory for any other",
        path,
        _TASK.format("self"),
        at=f".source.{member}.path",
    )


class ModelSpec(ApiModel):
    """Model of a pool."""

    model_config = ConfigDict(
        json_schema_extra=rules(
            rule(
                f"!has(self.source.module) || {_TASK.format('self')} == 'Tensor'",
                f"task %s needs a model directory: set source.type to {_DIRECTORY_TYPES}, or unset task",
                _TASK.format("self"),
                at=".task",
            ),
            *(_path_matches_task(member) for member in _FILES),
            rule(
                f"{_TASK.format('self')} == {_TASK.format('oldSelf')}",
                "task is immutable: was %s, got %s; create another pool",
                _TASK.format("oldSelf"),
                _TASK.format("self"),
                at=".task",
            ),
            rule(
                f"!has(self.dtype) || self.dtype != 'Int8' || {_TASK.format('self')} != 'TextGeneration'",
                "dtype %s is not for task TextGeneration: set dtype to BFloat16, or remove it",
                "self.dtype",
                at=".dtype",
            ),
            rule(
                f"!has(self.backend) || {_TASK.format('self')} != 'TextGeneration'",
                "backend %s is not for task TextGeneration: set spec.generation.computeBackend, and remove backend",
                "self.backend",
                at=".backend",
            ),
        )
    )
    name: (
        Annotated[
            str,
            Field(
                min_length=1, max_length=128, pattern=r"^[A-Za-z0-9]([-A-Za-z0-9_.]*[A-Za-z0-9])?$"
            ),
        ]
        | None
    ) = None
    """Name that clients use; defaults to the name of the pool."""
    task: Task | None = None
    """Task of the model: inference on tensors, text generation, text embeddings or text classification. Defaults to Tensor; immutable."""
    dtype: ModelDType | None = None
    """Data type in which the model computes. Auto, the default, is the type of the model's files on a GPU; on a CPU Float32, or for
    TextGeneration the type that is measured to be faster; and for task Tensor that of the program or module. Float16, BFloat16 and Int8 are
    compared with Float32 when the model loads, and status.modelBackend has the error. Int8 is for linear layers on CPUs, and not for
    TextGeneration."""
    backend: ModelBackend | None = None
    """Backend that runs a model of task Tensor, Embedding or Classification. Auto takes the fastest that is measured to agree with the
    untouched model. A backend that is named is used, or the model does not load. Defaults to the backend of the files: Eager (torch) for
    programs, modules and directories, ONNXRuntime for .onnx, OpenVINO for OpenVINO IR."""
    source: ModelSource
    """Source of the model."""
