"""`GenerationDrain`: selects the requests that a drain rejects.

It rejects at once those that have not started and are not predicted to finish by its deadline. At the deadline the
engine interrupts all that remain. The prediction assumes that every answer reaches its maximum length and that every step takes the mean step
time. Before the deadline a request with a started choice is never rejected, so its choices get slots first.
"""

import math
from collections.abc import Iterable
from heapq import heapify, heapreplace, nlargest

from penstock_runtime.engine.continuous.request_ledger import GenerationLedger
from penstock_runtime.engine.continuous.sequence import Sequence
from penstock_runtime.engine.continuous.service_curve import GenerationServiceCurve
from penstock_runtime.engine.continuous.steps.interfaces import Scheduler
from penstock_runtime.engine.messages import Drain
from penstock_runtime.request import Failed


class GenerationDrain:
    """Owns the drain in force, and selects nothing before one starts."""

    def __init__(
        self, scheduler: Scheduler, ledger: GenerationLedger, curve: GenerationServiceCurve
    ) -> None:
        self._scheduler = scheduler
        self._ledger = ledger
        self._curve = curve
        self._drain: Drain | None = None

    def start(self, drain: Drain) -> None:
        """Apply `drain` from now on."""
        self._drain = drain

    @property
    def deadline(self) -> float:
        """Time of the monotonic clock at which all remaining requests are interrupted; infinite before a drain starts."""
        return math.inf if self._drain is None else self._drain.deadline

    def rejection(self, sequences: list[Sequence], now: float) -> Failed | None:
        """Return the end of a new request that the drain rejects, or None."""
        drain = self._drain
        if drain is None:
            return None
        rejected = sequences[0].request.id in self._unfinishable(drain, sequences, now)
        return drain.rejection() if rejected else None

    def rejections(self, now: float) -> list[tuple[str, Failed]]:
        """Return the ids and ends of the waiting requests that the drain rejects."""
        drain = self._drain
        if drain is None:
            return []
        return [(name, drain.rejection()) for name in self._unfinishable(drain, (), now)]

    def _unfinishable(self, drain: Drain, newcomers: Iterable[Sequence], now: float) -> list[str]:
        """Return the requests, of those waiting and of `newcomers` after them, that will not finish in time."""
        step_seconds = self._curve.mean_seconds()
        steps = (drain.deadline - now) / step_seconds if step_seconds else math.inf
        waiting = [*self._scheduler.waiting_in_order(), *newcomers]
        return unfinishable(self._ledger.choices(), waiting, self._scheduler.cap, steps)


def unfinishable(
    unended: Iterable[Sequence], waiting: Iterable[Sequence], cap: int, within_steps: float
) -> list[str]:
    """Return the ids of requests in `waiting`, in queue order, that have not started and will not finish in time.

    `unended` are all choices, finished ones included, of pending requests.
    """
    unended, waiting = list(unended), list(waiting)
    started = {s.request.id for s in unended if s.stats.first_step_at is not None}
    queued = {s.uid for s in waiting}
    running = [_steps_left(s) for s in unended if s.finished is None and s.uid not in queued]
    slots = nlargest(cap, [*running, *[0] * cap])  # of a surplus, the first to finish free no slot
    heapify(slots)
    _fill(slots, (_steps_left(s) for s in waiting if s.request.id in started))
    requests: dict[str, list[int]] = {}
    for sequence in waiting:
        if sequence.request.id not in started:
            requests.setdefault(sequence.request.id, []).append(_steps_left(sequence))
    rejected = []
    for name, choices in requests.items():
        filled = slots.copy()
        if _fill(filled, choices) < within_steps:
            slots = filled
        else:
            rejected.append(name)
    return rejected


def _fill(slots: list[int], choices: Iterable[int]) -> int:
    """Assign each of `choices`, given by its steps, to the slot that frees first; return the step in which the last ends.

    `slots` is a heap of the steps from now at which each slot frees.
    """
    last = 0
    for steps in choices:
        end = slots[0] + steps
        heapreplace(slots, end)
        last = max(last, end)
    return last


def _steps_left(sequence: Sequence) -> int:
    return sequence.params.max_tokens - sequence.output_tokens
