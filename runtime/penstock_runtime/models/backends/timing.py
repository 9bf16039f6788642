"""`rates`: rows per second of several models, measured in turns so that other load on the machine affects all.

The fastest turn counts: other load only adds time, and on a busy machine it adds more than backends differ.
"""

import math
import statistics
from collections.abc import Callable, Mapping, Sequence

from penstock_runtime.engine.model import Model
from penstock_runtime.models.backends.samples import Batch

MEASURING_SECONDS = 6.0
"""Time after which no further round starts."""
BLOCK_SECONDS = 0.03
"""Time that a model runs one batch size before the next one's turn; the first run of a block does not count: it finds
the caches, and the threads of the model before it, at work."""
MIN_ROUNDS, MAX_ROUNDS = 2, 15
MAX_BLOCK_RUNS = 200

Rates = Mapping[str, tuple[float, ...]]
"""Rows per second at each batch size, by name."""


def rates(
    models: Mapping[str, Model],
    batches: Sequence[Batch],
    clock: Callable[[], float],
    seconds: float = MEASURING_SECONDS,
) -> Rates:
    """Return the rates of `models` on `batches` in their fastest turns."""
    runs: dict[str, list[list[float]]] = {name: [[] for _ in batches] for name in models}
    began = clock()
    for done in range(MAX_ROUNDS):
        if done >= MIN_ROUNDS and clock() - began > seconds:
            break
        for size, batch in enumerate(batches):
            for name, model in models.items():
                runs[name][size].append(_block(model, batch, clock))
    return {
        name: tuple(
            _rows(batch) / min(blocks) for batch, blocks in zip(batches, by_size, strict=True)
        )
        for name, by_size in runs.items()
    }


def fastest(measured: Rates) -> str:
    """Return the name with the greatest geometric mean over the batch sizes; the first wins ties."""
    return max(measured, key=lambda name: sum(map(math.log, measured[name])))


def _block(model: Model, batch: Batch, clock: Callable[[], float]) -> float:
    """Return the median duration of a run, in seconds, at least a nanosecond."""
    model.run(batch)
    durations: list[float] = []
    began = now = clock()
    while not durations or (now - began < BLOCK_SECONDS and len(durations) < MAX_BLOCK_RUNS):
        model.run(batch)
        now, before = clock(), now
        durations.append(now - before)
    return max(statistics.median(durations), 1e-9)


def _rows(batch: Batch) -> int:
    return int(next(iter(batch.values())).shape[0])
