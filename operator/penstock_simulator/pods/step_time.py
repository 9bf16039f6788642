"""`StepModel`: the simulated time of a step of a pod that generates text, and the tokens of each request. Times are seconds."""

from collections.abc import Mapping
from dataclasses import dataclass
from typing import NamedTuple

import numpy as np
from numpy.typing import NDArray

PREFILL_UNIT, KV_UNIT = 256, 4096
"""Tokens per unit of `StepModel.p` and `StepModel.k`, as in the sums that pods publish."""
Lengths = NDArray[np.int64]
"""Tokens of prompt and answer, by request: (n, 2)."""


class AnswerLength(NamedTuple):
    """Tokens of one request."""

    prompt: int
    answer: int


@dataclass(frozen=True, slots=True)
class StepModel:
    """The true time of a step, a + p * prefill / 256 + d * rows + k * context / 4096, which laws do not know.

    The defaults are arithmetic, not a measurement: 8 billion parameters in bfloat16 on 3.35 TB/s and 990 TFLOP/s, of which
    steps use 0.6 and prompts 0.5, with 128 KiB of keys and values a token and 50 GB for them.
    """

    a: float = 0.008
    p: float = 0.0083
    d: float = 0.00005
    k: float = 0.00027
    cache_tokens: int = 380_000
    """Tokens of running sequences that memory holds."""
    step_tokens: int = 512
    """Tokens of a step, prompts in chunks included."""
    sigma: float = 0.03
    """As in `ServiceModel`, like the next three fields."""
    tail_share: float = 0.002
    tail_factor: float = 1.5
    overhead: float = 0.005

    def seconds(self, prefill: float, rows: float, context: float) -> float:
        """Return the median time of a step; arguments in tokens, rows and tokens."""
        return self.a + self.p * prefill / PREFILL_UNIT + self.d * rows + self.k * context / KV_UNIT

    def work(self, lengths: Lengths, rows: int) -> NDArray[np.float64]:
        """Return the least device time of each request: its prompt, and its share of steps of `rows` sequences.

        Only a bound: no chunk adds a step of its own, and every step is full.
        """
        prompt, decoded = lengths[:, 0].astype(float), lengths[:, 1].astype(float) - 1
        read = decoded * prompt + decoded * decoded / 2
        read += prompt * (prompt / self.step_tokens + 1) / 2
        shared = (self.a / rows + self.d) * decoded
        whole = shared + self.p * prompt / PREFILL_UNIT + self.k * read / KV_UNIT
        return np.asarray(whole, dtype=np.float64)

    @property
    def exact(self) -> bool:
        """Whether step times are deterministic."""
        return self.sigma <= 0 and self.tail_share <= 0


@dataclass(frozen=True, slots=True)
class Generation:
    """Pods that generate text, and the tokens of their requests."""

    steps: StepModel
    lengths: Mapping[float, AnswerLength]
    """By arrival time."""


def by_arrival(times: NDArray[np.float64], lengths: Lengths) -> dict[float, AnswerLength]:
    """Return the tokens of each request by its arrival time, which must be distinct."""
    pairs = zip(times.tolist(), lengths.tolist(), strict=True)
    return {time: AnswerLength(*tokens) for time, tokens in pairs}


def distinct(times: NDArray[np.float64]) -> NDArray[np.float64]:
    """Return ascending times, equal ones moved by a microsecond each."""
    index = np.arange(len(times)) * 1e-6
    return np.asarray(np.maximum.accumulate(times - index) + index, dtype=np.float64)
