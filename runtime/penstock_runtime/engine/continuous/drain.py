"""Whom a drain refuses at once: who has not begun and is not predicted to finish by its deadline.

A prediction takes every answer to be as long as it may become, and every step as long as the mean of those so far.
Whoever has begun is never refused, so its choices have their places first.
"""

from collections.abc import Iterable
from heapq import heapify, heapreplace, nlargest

from penstock_runtime.engine.continuous.sequence import Sequence


def beyond(
    held: Iterable[Sequence], waiting: Iterable[Sequence], cap: int, within_steps: float
) -> list[str]:
    """Return the requests of `waiting`, which is in order, that have not begun and will not finish in time.

    `held` are the choices of all requests that have not ended, those that have finished included.
    """
    held, waiting = list(held), list(waiting)
    begun = {one.request.id for one in held if one.stats.first_step_at is not None}
    queued = {one.uid for one in waiting}
    running = [_left(one) for one in held if one.finished is None and one.uid not in queued]
    places = nlargest(cap, [*running, *[0] * cap])  # where more run, some must leave first
    heapify(places)
    _take(places, (_left(one) for one in waiting if one.request.id in begun))
    requests: dict[str, list[int]] = {}
    for one in waiting:
        if one.request.id not in begun:
            requests.setdefault(one.request.id, []).append(_left(one))
    refused = []
    for name, choices in requests.items():
        taken = places.copy()
        if _take(taken, choices) < within_steps:
            places = taken
        else:
            refused.append(name)
    return refused


def _take(places: list[int], choices: Iterable[int]) -> int:
    """Give each of `choices`, in steps, the place that is free first; return when the last of them finishes.

    `places` is a heap of when each is free, in steps from now.
    """
    last = 0
    for steps in choices:
        end = places[0] + steps
        heapreplace(places, end)
        last = max(last, end)
    return last


def _left(sequence: Sequence) -> int:
    return sequence.params.max_tokens - sequence.output_tokens
