"""The requests that a drain rejects at once: those not started and not predicted to finish by its deadline.

The prediction assumes that every answer reaches its maximum length and that every step takes the mean step time.
A request with a started choice is never rejected, so its choices get slots first.
"""

from collections.abc import Iterable
from heapq import heapify, heapreplace, nlargest

from penstock_runtime.engine.continuous.sequence import Sequence


def unfinishable(
    unended: Iterable[Sequence], waiting: Iterable[Sequence], cap: int, within_steps: float
) -> list[str]:
    """Return the ids of requests in `waiting`, in queue order, that have not started and will not finish in time.

    `unended` are all choices, finished ones included, of requests that have not ended.
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
