"""The batch cap of UtilizationBand (docs/design/control-law.md#utilizationband). Pure.

Down one step: duty above the band **and** (tail batch time above the target, or memory pressure). The tail is the 99th
percentile under an objective of 99 percent.
Up one step: (duty below the band, or more than half a cap waiting per replica) **and** t(cap + 1) within
the target. A step is 25 %, at least 1. A step up ends at the last size predicted to meet the target; the prediction includes
the measured spread (tail over t(cap)), so that the step is not taken back at once.
"""

from typing import NamedTuple

from penstock_operator.decide.scaling.reasons import CapMove, CapReason
from penstock_operator.decide.scaling.signals.aggregates import MeasuredService
from penstock_operator.decide.scaling.signals.service_curve import batch_seconds
from penstock_operator.decide.spec.law_settings import LawSettings

STEP_SECONDS = 30.0
STEP_PERCENT = 25
BATCH_SHARE = 0.45
"""Share of the objective for one batch: a request waits for the running batch and for its own, with 10 % to spare."""


class CapInput(NamedTuple):
    """Inputs of the cap decision."""

    settings: LawSettings
    cap: int
    memory_bound: int | None
    """The smallest memory bound of the Ready pods, in rows; None if no pod reports one."""
    waiting_per_replica: float | None
    service: MeasuredService
    """Service since every Ready pod acknowledged the cap."""


def batch_target_seconds(settings: LawSettings) -> float | None:
    """Return T = 0.45 * (D - window); None without an objective."""
    if settings.objective_milliseconds is None:
        return None
    spare = settings.objective_milliseconds - settings.max_queue_delay_milliseconds
    return BATCH_SHARE * spare / 1000.0


def clamp_cap(cap: int, settings: LawSettings) -> int:
    """Return the cap inside [size.min, size.max]; the maximum wins where they cross."""
    return min(max(cap, settings.size_min), settings.size_max)


def held_cap(cap: int | None, settings: LawSettings, term: CapReason, why: str) -> CapMove:
    """Return the published cap, within the range in force, with this reason; the first cap if none is published."""
    if cap is None:
        first = clamp_cap(settings.size_min, settings)
        return CapMove(first, CapReason.FIRST_CAP, "the first cap is size.min")
    bounded = clamp_cap(cap, settings)
    if bounded == cap:
        return CapMove(cap, term, why)
    edited = CapReason.SIZE_MAX if bounded < cap else CapReason.SIZE_MIN
    text = f"batching.size allows {settings.size_min} to {settings.size_max}"
    return CapMove(bounded, edited, text)


def step_size(cap: int) -> int:
    """Return 25 % of the cap, rounded up, at least 1."""
    return max(1, -(-cap * STEP_PERCENT // 100))


def predicted_seconds(seen: CapInput, rows: int) -> float | None:
    """Return the batch time predicted for a cap of `rows`; None without batches."""
    expected = batch_seconds(seen.service.sums, rows)
    now = batch_seconds(seen.service.sums, seen.cap)
    tail = seen.service.batch_tail_seconds
    if expected is None or now is None or now <= 0 or tail is None:
        return expected
    return expected * max(1.0, tail / now)


def next_cap(seen: CapInput) -> CapMove:
    """Return the cap after one step, or the same cap with the reason."""
    service, settings = seen.service, seen.settings
    high = service.duty is not None and service.duty > settings.high_percent / 100
    low = service.duty is not None and service.duty < settings.low_percent / 100
    busy = f"duty is {_percent(service.duty)}"
    if high and (reason := _too_much(seen)) is not None:
        return _down(seen, reason, busy)
    if seen.waiting_per_replica is not None and seen.waiting_per_replica > seen.cap / 2:
        why = f"{seen.waiting_per_replica:.1f} requests wait per replica, more than half the cap"
        return _up(seen, CapReason.WAITING, why)
    if low:
        return _up(seen, CapReason.LOW_DUTY, f"{busy}, below {settings.low_percent} %")
    return CapMove(seen.cap, CapReason.IN_BAND, busy)


def _too_much(seen: CapInput) -> CapReason | None:
    target, tail = batch_target_seconds(seen.settings), seen.service.batch_tail_seconds
    if target is not None and tail is not None and tail > target:
        return CapReason.BATCH_TIME
    over_bound = seen.memory_bound is not None and seen.cap > seen.memory_bound
    if seen.service.out_of_memory_splits > 0 or over_bound:
        return CapReason.MEMORY_PRESSURE
    return None


def _down(seen: CapInput, term: CapReason, busy: str) -> CapMove:
    cap = clamp_cap(seen.cap - step_size(seen.cap), seen.settings)
    if term is CapReason.BATCH_TIME:
        target = batch_target_seconds(seen.settings)
        tail = seen.service.batch_tail_seconds
        percent = 100 * (1 - seen.settings.late.request)
        why = f"{busy} and the p{percent:g} batch time is {_ms(tail)}, over {_ms(target)}"
    else:
        why = f"{busy} and memory is tight"
    if cap >= seen.cap:
        return CapMove(seen.cap, CapReason.SIZE_MIN, f"{why}, but the cap is at its minimum")
    return CapMove(cap, term, why)


def _up(seen: CapInput, term: CapReason, why: str) -> CapMove:
    top = clamp_cap(seen.cap + step_size(seen.cap), seen.settings)
    if top <= seen.cap:
        return CapMove(seen.cap, CapReason.SIZE_MAX, f"{why}, but the cap is at its maximum")
    if seen.memory_bound is not None:
        top = min(top, seen.memory_bound)
    if top <= seen.cap:
        return CapMove(
            seen.cap, CapReason.MEMORY_BOUND, f"{why}, but memory allows no larger batch"
        )
    target = batch_target_seconds(seen.settings)
    if target is None:
        return CapMove(top, term, why)
    for cap in range(top, seen.cap, -1):
        predicted = predicted_seconds(seen, cap)
        if predicted is not None and predicted <= target:
            return CapMove(cap, term, why)
    predicted = predicted_seconds(seen, seen.cap + 1)
    blocked = (
        "no batch has been measured to predict a larger one"
        if predicted is None
        else f"one more row would take {_ms(predicted)}, over {_ms(target)}"
    )
    return CapMove(seen.cap, CapReason.BATCH_TIME_TARGET, f"{why}, but {blocked}")


def _percent(share: float | None) -> str:
    return "unknown" if share is None else f"{100 * share:.0f} %"


def _ms(seconds: float | None) -> str:
    return "unknown" if seconds is None else f"{1000 * seconds:.0f} ms"
