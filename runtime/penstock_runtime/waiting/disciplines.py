"""Disciplines as keys: the smaller is served first, and no key changes while its request waits.

So one heap serves every discipline. `Priority` ages linearly without touching the heap: `arrived +
class * AGING_SECONDS` orders exactly as "each class lower waits AGING_SECONDS longer", because the time
that passes is the same for all. A request therefore overtakes only what arrived less than
`(LOWEST_CLASS - 1) * AGING_SECONDS` before it, and nobody starves.
"""

import math
from collections.abc import Callable
from typing import assert_never

from penstock_api.limits import Discipline
from penstock_runtime.request import Request

AGING_SECONDS = 5.0
"""A class is worth this much waiting: long against a batch, short against a client's patience."""
LOWEST_CLASS = 10
"""Of an unset priority (0), and of any number above it."""


def priority_class(priority: int) -> int:
    """Return 1 (highest) to LOWEST_CLASS for a request's `priority` (Triton: 0 is unset)."""
    return priority if 1 <= priority < LOWEST_CLASS else LOWEST_CLASS


def order_key(discipline: Discipline, request: Request) -> float:
    """Return the key of `request` in seconds of the monotonic clock."""
    return key_function(discipline)(request)


def key_function(discipline: Discipline) -> Callable[[Request], float]:
    """Return what gives a request its key: asked once a discipline, called once a request."""
    match discipline:
        case Discipline.FIRST_IN_FIRST_OUT:
            return _arrival
        case Discipline.PRIORITY:
            return _aged_priority
        case Discipline.EARLIEST_DEADLINE_FIRST:
            return _deadline
        case _:
            assert_never(discipline)


def _arrival(request: Request) -> float:
    return request.arrived


def _aged_priority(request: Request) -> float:
    priority = request.priority  # `priority_class`, without a call on every request's way
    return request.arrived + AGING_SECONDS * (
        priority if 1 <= priority < LOWEST_CLASS else LOWEST_CLASS
    )


def _deadline(request: Request) -> float:
    return math.inf if request.deadline is None else request.deadline
