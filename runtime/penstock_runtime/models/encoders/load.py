"""`load_encoder`: loads a text encoder from a Hugging Face directory, from safetensors and without remote code."""

import logging
from collections.abc import Callable
from dataclasses import dataclass, replace
from pathlib import Path
from typing import Any

import numpy as np
import torch
import transformers
from transformers import AutoConfig, PreTrainedConfig
from transformers.quantizers.auto import AutoHfQuantizer

from penstock_api.pod_contract import MAX_BATCH_SIZE
from penstock_api.types.model import Task
from penstock_runtime.engine.continuous.steps.options import DType
from penstock_runtime.engine.model import Model, ModelInfo, ModelLoadFailed, TensorSpec, describe
from penstock_runtime.engine.padding import length_buckets
from penstock_runtime.models.device.device import backend_of, choose_device
from penstock_runtime.models.device.int8_linear import NO_LINEAR_LAYERS, ON_CPU_ONLY, in_int8
from penstock_runtime.models.device.prepacked_linear import prepack
from penstock_runtime.models.encoders.bert_layers import parts_of
from penstock_runtime.models.encoders.directory import (
    IDS,
    MASK,
    EncoderDirectory,
    read_directory,
)
from penstock_runtime.models.encoders.model import (
    CHUNK_TOKENS,
    OutputHead,
    PackedEncoder,
    PaddedEncoder,
    TextLimits,
    padded_call,
)
from penstock_runtime.models.encoders.packed import PackedBody
from penstock_runtime.models.torch_model import TorchModel
from penstock_runtime.models.weights import reject_quantized
from penstock_runtime.request import Tensor

log = logging.getLogger(__name__)
transformers.utils.logging.disable_progress_bar()  # type: ignore[no-untyped-call]

TOLERANCE = 1e-3
"""Tolerated difference relative to the largest value: another order of float32 summation changes outputs by 1e-6
(by 1e-4 in the worst random models), a wrong layer by 1e-1."""
_UNUSED = ("pooler.",)
"""Weights that an embedding model does not use and may lack."""


@dataclass(frozen=True, slots=True)
class OpenedEncoder:
    """An encoder as transformers reads it, in float32 or the type that is set."""

    model: Any
    info: ModelInfo
    head: OutputHead
    limits: TextLimits
    device: torch.device

    @property
    def call(self) -> Callable[[list[torch.Tensor]], torch.Tensor]:
        """The model's own forward and head over padded ids and masks."""
        return padded_call(self.model, self.head, logits=self.info.task is Task.CLASSIFICATION)

    def padded(self) -> PaddedEncoder:
        """Return the untouched model."""
        return PaddedEncoder(TorchModel(self.info, self.call, self.device), self.limits)


def load_encoder(folder: Path, task: Task, dtype: DType = DType.AUTO) -> Model:
    """Return the encoder in `folder`, which computes in `dtype` and returns float32.

    Raises:
        ModelLoadFailed: the directory is incomplete or not supported; the message names the remedy.
    """
    opened = open_encoder(folder, task, dtype)
    model, info, limits, plain = opened.model, opened.info, opened.limits, opened.padded()
    if opened.device.type != "cpu":
        if dtype is DType.INT8:
            raise ModelLoadFailed(ON_CPU_ONLY)
        return plain
    if model.dtype != torch.float32:
        return _checked(plain, limits, dtype)
    if dtype is DType.INT8:
        return _in_int8(opened)
    packed = _packed(model, info, opened.head, limits)
    if packed is None:
        return _prepacked(model, plain, limits)
    return packed if _agree(plain, packed, limits, "packed") else plain


def open_encoder(
    folder: Path, task: Task, dtype: DType, device: torch.device | None = None
) -> OpenedEncoder:
    """Return the encoder in `folder`, by default on the device of this process. Raises `ModelLoadFailed`."""
    directory = read_directory(folder)
    device = device or choose_device()
    model = _read(directory, task, _compute_dtype(dtype, device)).to(device)
    head, info = _head(directory, task, model), _info(directory, task, model, device)
    return OpenedEncoder(model, info, head, text_limits(directory, model.config, device), device)


def text_limits(directory: EncoderDirectory, config: Any, device: torch.device) -> TextLimits:
    """Return the limits of a row by the configuration of transformers."""
    return TextLimits(
        max_tokens=directory.max_tokens,
        vocabulary=int(config.vocab_size),
        pad_id=int(config.pad_token_id or 0),
        to_bucket=device.type == "cuda",
    )


def _compute_dtype(dtype: DType, device: torch.device) -> torch.dtype | str:
    """Return the type of the weights: Auto is that of the files, on a CPU float32."""
    if dtype is DType.AUTO:
        return "auto" if device.type == "cuda" else torch.float32
    if dtype is DType.INT8:
        return torch.float32  # its layers quantize these weights
    return getattr(torch, dtype.value)  # type: ignore[no-any-return]


def _checked(plain: PaddedEncoder, limits: TextLimits, dtype: DType) -> PaddedEncoder:
    """Return `plain` once it has computed in `dtype`, which not every operation of a CPU supports."""
    try:
        plain.run(samples(limits)[0])
    except RuntimeError as error:
        raise ModelLoadFailed(
            f"the model does not compute in {dtype} on a CPU ({describe(error)}): set spec.model.dtype to Float32"
        ) from error
    return plain


def _read(directory: EncoderDirectory, task: Task, dtype: torch.dtype | str) -> Any:
    kind: Any = (
        transformers.AutoModelForSequenceClassification
        if task is Task.CLASSIFICATION
        else transformers.AutoModel
    )
    try:
        config: PreTrainedConfig = AutoConfig.from_pretrained(
            directory.folder, local_files_only=True, trust_remote_code=False
        )
        reject_quantized(directory.folder, config, AutoHfQuantizer.supports_quant_method)
        model, report = kind.from_pretrained(
            directory.folder,
            config=config,
            local_files_only=True,
            use_safetensors=True,
            trust_remote_code=False,
            output_loading_info=True,
            dtype=dtype,
        )
    except ModelLoadFailed:
        raise
    except Exception as error:
        raise ModelLoadFailed(
            f"directory '{directory.folder}' does not load as {task} ({describe(error)}):"
            " use a transformers model with safetensors weights"
        ) from error
    missing = sorted(
        name
        for name in report["missing_keys"]
        if task is not Task.EMBEDDING or not name.startswith(_UNUSED)
    )
    if missing:
        raise ModelLoadFailed(
            f"directory '{directory.folder}' has no weights for {', '.join(missing[:3])}"
            f" ({len(missing)} in all): it was trained for another task than {task}"
        )
    return model.eval().requires_grad_(requires_grad=False)


def _head(directory: EncoderDirectory, task: Task, model: Any) -> OutputHead:
    if task is Task.EMBEDDING:
        return OutputHead(directory.pooling, directory.normalize)
    parts = parts_of(model)
    return OutputHead(
        directory.pooling, normalize=False, classify=parts.classify if parts else None
    )


def _info(directory: EncoderDirectory, task: Task, model: Any, device: torch.device) -> ModelInfo:
    width = int(model.config.num_labels if task is Task.CLASSIFICATION else _width(model))
    bounds = ((1, MAX_BATCH_SIZE), (1, directory.max_tokens))
    vocabulary = range(int(model.config.vocab_size))
    name = "logits" if task is Task.CLASSIFICATION else "embedding"
    return ModelInfo(
        name=directory.folder.name,
        platform="transformers_padded",
        backend=backend_of(device),
        inputs=(
            TensorSpec(IDS, "INT64", (-1, -1), bounds, ragged=True, values=vocabulary),
            TensorSpec(MASK, "INT64", (-1, -1), bounds, ragged=True, marks=True),
        ),
        outputs=(TensorSpec(name, "FP32", (-1, width)),),
        max_rows=MAX_BATCH_SIZE,
        task=task,
        length_buckets=length_buckets(directory.max_tokens),
        labels=directory.labels if task is Task.CLASSIFICATION else (),
    )


def _width(model: Any) -> int:
    return int(getattr(model.config, "hidden_size", None) or model.config.dim)


def _in_int8(opened: OpenedEncoder) -> Model:
    """Return the encoder with int8 linear layers, packed if its architecture is known. Raises `ModelLoadFailed` without any."""
    model, info, limits = opened.model, opened.info, opened.limits
    packed = _packed(model, info, opened.head, limits, in_int8=True)
    if packed is None:
        if not in_int8(model):
            raise ModelLoadFailed(NO_LINEAR_LAYERS)
        return opened.padded()
    return packed


def _packed(
    model: Any, info: ModelInfo, head: OutputHead, limits: TextLimits, *, in_int8: bool = False
) -> PackedEncoder | None:
    parts = parts_of(model)
    if parts is None:
        return None
    packed = replace(info, platform="transformers_packed", length_buckets=())
    body = PackedBody(parts, in_int8=in_int8)
    return PackedEncoder(packed, body, head, limits, CHUNK_TOKENS)


def _prepacked(model: Any, plain: PaddedEncoder, limits: TextLimits) -> PaddedEncoder:
    """Return `plain` with prepacked linear layers, unless its outputs change."""
    before = [plain.run(sample) for sample in samples(limits)]
    originals = {
        name: module for name, module in model.named_modules() if type(module) is torch.nn.Linear
    }
    if prepack(model) and not _close(
        before, [plain.run(sample) for sample in samples(limits)], "prepacked"
    ):
        for name, linear in originals.items():
            parent, _, leaf = name.rpartition(".")
            setattr(model.get_submodule(parent), leaf, linear)
    return plain


def _agree(plain: Model, other: Model, limits: TextLimits, variant: str) -> bool:
    drawn = samples(limits)
    expected = [plain.run(sample) for sample in drawn]
    return _close(expected, [other.run(sample) for sample in drawn], variant)


def _close(expected: list[dict[str, Tensor]], got: list[dict[str, Tensor]], variant: str) -> bool:
    """Return whether the outputs of a faster variant agree; log a warning if not."""
    for outputs, other in zip(expected, got, strict=True):
        for name, values in outputs.items():
            scale = max(1.0, float(np.abs(values).max()))
            error = float(np.abs(np.subtract(values, other[name])).max()) / scale
            if not error <= TOLERANCE:
                log.warning(
                    "the %s variant is not used: it differs from the original model by %.1e",
                    variant,
                    error,
                )
                return False
    return True


def samples(limits: TextLimits) -> list[dict[str, Tensor]]:
    """Return batches of random ids other than the padding: one text alone, and texts of different lengths."""
    random = np.random.default_rng(0)
    longest = min(limits.max_tokens, 64)
    drawn: list[dict[str, Tensor]] = []
    for sizes in ((longest,), (1, 2, 7, 7, longest // 2 or 1, longest)):
        mask = (np.arange(longest)[None] < np.array(sizes)[:, None]).astype(np.int64)
        others = random.integers(0, limits.vocabulary - 1, mask.shape)
        ids = (others + (others >= limits.pad_id)) * mask
        drawn.append({IDS: ids + (1 - mask) * limits.pad_id, MASK: mask})
    return drawn
