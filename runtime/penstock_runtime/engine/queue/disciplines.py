"""`order_key`: the key of a request under a discipline; the smallest is served first, and keys are constant.

One heap therefore serves every discipline but `FairShare`. `Priority` ages linearly without touching the heap: `arrived +
class * AGING_SECONDS` orders exactly as "each class lower waits AGING_SECONDS longer", because the time
that passes is the same for all. A request therefore overtakes only what arrived less than
`(LOWEST_CLASS - 1) * AGING_SECONDS` before it, and no request starves but batch work, which can wait. `ShortestJobFirst` has no aging: long
work may wait as long as shorter work keeps coming. `FairShare` orders tenants, not requests: `order.py`.
"""

import math
from collections.abc import Callable
from typing import Protocol, assert_never

from penstock_api.names import BATCH_PRIORITY
from penstock_api.pod_contract import Discipline

AGING_SECONDS = 5.0
"""Waiting time that equals one class: long compared with a batch, short compared with a client timeout."""
HIGHEST_CLASS = 1
"""Class that is served first."""
LOWEST_CLASS = 10
"""Class of an unset priority (0)."""
BATCH_CLASS = BATCH_PRIORITY
"""Class of batch work, and of any number above it: every other class overtakes it for BATCH_WAIT_SECONDS."""
BATCH_WAIT_SECONDS = 7 * 86_400.0
"""Time after which batch work ranks as a request that arrives then: longer than a pod keeps a request."""


class Aging(Protocol):
    """The fields that `Priority` orders by."""

    @property
    def arrived(self) -> float:
        """Time of arrival, in seconds of the monotonic clock."""

    @property
    def priority(self) -> int:
        """1 is the highest; 0 is unset."""


class Ordered(Aging, Protocol):
    """The fields of a request or sequence that an order may read."""

    @property
    def deadline(self) -> float | None:
        """Time at which it expires, on the same clock."""

    @property
    def tenant(self) -> str:
        """Tenant whose share it uses; empty: the shared default."""

    @property
    def work(self) -> float:
        """Predicted work: rows of a one-shot request, tokens of a generation."""


def priority_class(priority: int) -> int:
    """Return 1 (highest) to LOWEST_CLASS, or BATCH_CLASS, for a request's `priority` (Triton: 0 is unset)."""
    if priority >= BATCH_CLASS:
        return BATCH_CLASS
    return priority if 1 <= priority < LOWEST_CLASS else LOWEST_CLASS


def is_batch_work(priority: int) -> bool:
    """Return whether a request with `priority` can wait for every other."""
    return priority >= BATCH_CLASS


def order_key(discipline: Discipline, ordered: Ordered) -> float:
    """Return the key of a request: seconds of the monotonic clock, or units of work.

    Raises:
        ValueError: the discipline is FairShare, which has no constant key.
    """
    return key_function(discipline)(ordered)


def key_function(discipline: Discipline) -> Callable[[Ordered], float]:
    """Return the function from a request to its key.

    Raises:
        ValueError: as `order_key`.
    """
    match discipline:
        case Discipline.FIRST_IN_FIRST_OUT:
            return _arrival
        case Discipline.PRIORITY:
            return aged_priority
        case Discipline.EARLIEST_DEADLINE_FIRST:
            return _deadline
        case Discipline.SHORTEST_JOB_FIRST:
            return _work
        case Discipline.FAIR_SHARE:
            raise ValueError("FairShare orders tenants: its requests have no key of their own")
        case _:
            assert_never(discipline)


def _arrival(ordered: Ordered) -> float:
    return ordered.arrived


def aged_priority(request: Aging) -> float:
    """Return the key of `Priority`: the smallest is served first."""
    priority = request.priority  # `priority_class` inlined: this runs for every request
    if priority >= BATCH_CLASS:
        return request.arrived + BATCH_WAIT_SECONDS
    return request.arrived + AGING_SECONDS * (
        priority if 1 <= priority < LOWEST_CLASS else LOWEST_CLASS
    )


def _deadline(ordered: Ordered) -> float:
    return math.inf if ordered.deadline is None else ordered.deadline


def _work(ordered: Ordered) -> float:
    return ordered.work
