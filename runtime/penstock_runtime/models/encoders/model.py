"""Text encoders as `Model`: token ids and attention mask in, one vector per row out.

Two variants, selected at load: `PackedEncoder` (known architectures related to BERT on a CPU, without padding) and
`PaddedEncoder` (all others, any device: rows of similar length are batched and run by the model's own forward).
"""

from collections.abc import Callable, Sequence
from dataclasses import dataclass
from typing import Any

import numpy as np
import torch
from numpy.typing import NDArray
from torch.nn import functional
from typing_extensions import override

from penstock_runtime.engine import padding as by_length
from penstock_runtime.engine.model import Model, ModelInfo
from penstock_runtime.models.backends.array_model import ArrayModel
from penstock_runtime.models.device.device import device_errors
from penstock_runtime.models.device.memory import measured_bound_rows, meter_of
from penstock_runtime.models.encoders.bert_layers import Classify
from penstock_runtime.models.encoders.directory import IDS, MASK, Pooling
from penstock_runtime.models.encoders.packed import PackedBody, group_lengths, pooled
from penstock_runtime.models.torch_model import TorchModel
from penstock_runtime.request import Tensor

CHUNK_TOKENS = 2048
"""Tokens per pass: enough for full speed, few enough to bound memory and to stay in the CPU's caches."""


class BadRow(ValueError):
    """An invalid row, which fails alone."""


@dataclass(frozen=True, slots=True)
class OutputHead:
    """Computation after the hidden states: an embedding, or logits from the first token."""

    pooling: Pooling
    normalize: bool
    classify: Classify | None = None


@dataclass(frozen=True, slots=True)
class TextLimits:
    """Limits of a row, and its padding."""

    max_tokens: int
    vocabulary: int
    pad_id: int = 0
    to_bucket: bool = False

    def checked(self, ids: Tensor, mask: Tensor) -> NDArray[np.int64]:
        """Return the number of tokens of each row.

        On a GPU, an id outside the vocabulary would abort the process instead of failing its row.

        Raises:
            BadRow: a row is empty or too long, or an id is not in the vocabulary.
        """
        counts: NDArray[np.int64] = mask.sum(1)
        if counts.min() < 1 or counts.max() > self.max_tokens:
            raise BadRow(
                f"a row has {counts.min()} to {counts.max()} tokens: send 1 to {self.max_tokens}"
            )
        lowest, highest = int(ids.min()), int(ids.max())
        if lowest < 0 or highest >= self.vocabulary:
            raise BadRow(
                f"token id {lowest if lowest < 0 else highest} is not in the vocabulary of {self.vocabulary}"
            )
        return counts


class PackedEncoder(Model):
    """An encoder that sorts rows by length and concatenates them into passes of about `chunk` tokens."""

    def __init__(
        self, info: ModelInfo, body: PackedBody, head: OutputHead, limits: TextLimits, chunk: int
    ) -> None:
        self.info = info
        self._body, self._head, self._limits, self._chunk = body, head, limits, chunk

    @override
    def run(self, inputs: dict[str, Tensor]) -> dict[str, Tensor]:
        ids, mask = inputs[IDS], inputs[MASK].astype(bool)
        counts = self._limits.checked(ids, mask)
        order = np.argsort(counts, kind="stable")
        outputs: Tensor | None = None
        with device_errors(), torch.inference_mode():
            for rows in _passes(order, counts, self._chunk):
                vectors = self._pass(ids[rows], mask[rows], counts[rows])
                if outputs is None:
                    outputs = np.empty((len(order), vectors.shape[1]), np.float32)
                outputs[rows] = vectors
        assert outputs is not None  # noqa: S101 - a batch has at least one row
        return {self.info.outputs[0].name: outputs}

    @override
    def memory_bound_rows(self) -> int:
        return memory_bound(self.run, self.info, self._limits, torch.device("cpu"))

    def _pass(self, ids: Tensor, mask: Tensor, counts: NDArray[np.int64]) -> Tensor:
        groups = group_lengths(counts.tolist())
        hidden = self._body(torch.from_numpy(ids[mask]), groups)
        if self._head.classify is not None:
            vectors = self._head.classify(pooled(hidden, groups, Pooling.FIRST))
        else:
            vectors = pooled(hidden, groups, self._head.pooling)
        if self._head.normalize:
            vectors = functional.normalize(vectors, dim=1)
        array: Tensor = vectors.numpy()
        return array


class PaddedEncoder(Model):
    """An encoder that pads rows of similar length to the longest of them (on CUDA to a bucket, for CUDA graphs)."""

    def __init__(self, inner: TorchModel | ArrayModel, limits: TextLimits) -> None:
        self.info = inner.info
        self.inner = inner
        self._limits = limits

    @override
    def run(self, inputs: dict[str, Tensor]) -> dict[str, Tensor]:
        ids, mask = inputs[IDS], inputs[MASK].astype(bool)
        counts = self._limits.checked(ids, mask)
        outputs: Tensor | None = None
        for rows in self._runs(counts.tolist()):
            (vectors,) = self.inner.run(self._run_inputs(ids, mask, counts, rows)).values()
            if outputs is None:
                outputs = np.empty((len(ids), vectors.shape[1]), np.float32)
            outputs[rows] = vectors
        assert outputs is not None  # noqa: S101 - a batch has at least one row
        return {self.info.outputs[0].name: outputs}

    @override
    def memory_bound_rows(self) -> int:
        return memory_bound(self.run, self.info, self._limits, self.inner.device)

    def _runs(self, counts: list[int]) -> list[list[int]]:
        """Group rows by length; on a GPU by bucket, where fewer launches matter more than less padding."""
        if not self._limits.to_bucket:
            return by_length.runs(counts)
        by_bucket: dict[int, list[int]] = {}
        for row in sorted(range(len(counts)), key=lambda row: -counts[row]):
            bucket = by_length.bucket_of(counts[row], self.info.length_buckets)
            by_bucket.setdefault(bucket, []).append(row)
        return list(by_bucket.values())

    def _run_inputs(
        self, ids: Tensor, mask: Tensor, counts: NDArray[np.int64], rows: list[int]
    ) -> dict[str, Tensor]:
        longest = int(counts[rows[0]])
        buckets = self.info.length_buckets if self._limits.to_bucket else ()
        width = by_length.bucket_of(longest, buckets)
        padded = np.full((len(rows), width), self._limits.pad_id, np.int64)
        real = np.zeros((len(rows), width), np.int64)
        for index, row in enumerate(rows):
            tokens = ids[row][mask[row]]
            padded[index, : len(tokens)] = tokens
            real[index, : len(tokens)] = 1
        return {IDS: padded, MASK: real}


def memory_bound(
    run: Callable[[dict[str, Tensor]], dict[str, Tensor]],
    info: ModelInfo,
    limits: TextLimits,
    device: torch.device,
) -> int:
    """Return the number of rows of maximum length that fit in memory."""
    max_tokens = limits.max_tokens

    def run_rows(rows: int) -> None:
        ones = np.ones((rows, max_tokens), np.int64)
        run({IDS: ones, MASK: ones})

    row_bytes = 2 * 8 * max_tokens + 4 * info.outputs[0].shape[1]
    return measured_bound_rows(run_rows, row_bytes, info.max_rows, meter_of(device))


def _passes(
    order: NDArray[np.int64], counts: NDArray[np.int64], max_tokens: int
) -> Sequence[NDArray[np.int64]]:
    """Split rows in `order` into passes of at most `max_tokens`, which a single row may exceed."""
    ends = np.cumsum(counts[order])
    if ends[-1] <= max_tokens:
        return [order]
    passes, start = [], 0
    while start < len(order):
        done = ends[start - 1] if start else 0
        stop = max(start + 1, int(np.searchsorted(ends, done + max_tokens, side="right")))
        passes.append(order[start:stop])
        start = stop
    return passes


def padded_call(
    model: Any, head: OutputHead, *, logits: bool
) -> Callable[[list[torch.Tensor]], torch.Tensor]:
    """Return a call of the model's own forward and head over padded ids and masks."""

    def call(tensors: list[torch.Tensor]) -> torch.Tensor:
        ids, mask = tensors
        outputs = model(input_ids=ids, attention_mask=mask)
        if logits:
            return outputs.logits.float()  # type: ignore[no-any-return]
        vectors = _pool_masked(outputs.last_hidden_state.float(), mask, head.pooling)
        return functional.normalize(vectors, dim=1) if head.normalize else vectors

    return call


def _pool_masked(hidden: torch.Tensor, mask: torch.Tensor, pooling: Pooling) -> torch.Tensor:
    real = mask[:, :, None].to(hidden.dtype)
    match pooling:
        case Pooling.MEAN:
            return (hidden * real).sum(1) / real.sum(1)
        case Pooling.FIRST:
            return hidden[:, 0]
        case Pooling.MAX:
            return hidden.masked_fill(real == 0, -torch.inf).amax(1)
