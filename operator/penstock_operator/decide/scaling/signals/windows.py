"""Windows of samples, one per pod UID (docs/design/control-law.md#data). Pure.

The operator differences raw counters itself, so that no rate spans two pods or a restart.
"""

from collections.abc import Container, Iterable, Mapping, Sequence
from operator import attrgetter
from types import MappingProxyType
from typing import NamedTuple

from penstock_operator.decide.scaling.law import LawPod
from penstock_operator.decide.scaling.signals.counters import Point, born, point, restarted
from penstock_operator.observed import PodSample, PoolSignals, SignalSource

MAX_AGE_SECONDS = 30.0
"""Maximum age of a usable sample; a pod without one is absent."""
MAX_AHEAD_SECONDS = 10.0
"""Maximum time by which a sample may be ahead of the clock."""
WINDOW_SECONDS = 30.0
"""Length of a window; longer if it has fewer than `WINDOW_SCRAPES` samples."""
WINDOW_SCRAPES = 4
"""Samples that a rate needs, or fewer over `FULL_SECONDS`; else the window is absent."""
FULL_SECONDS = 14.5
"""Time that samples cover if none is lost, less half a second."""
MAX_SPAN_SECONDS = 180.0
"""Maximum length of a window: six of the 30 s ticks of an idle pool."""
MAX_SAMPLES = 32
"""Maximum samples of a window, however often the pod is scraped."""
MIN_SPACING_SECONDS = 0.5
"""Minimum time between two samples: closer ones add nothing to a rate."""
YOUNG_SECONDS = 10.0
"""Two scrapes: the counters of a pod that is younger at its first sample started at 0."""

GONE_SECONDS = 30.0
"""Time for which the demand of a deleted pod still counts, so that a kill or a rollout is no dip in demand."""

Window = tuple[Point, ...]
"""Points of one pod, oldest first."""


class Windows(NamedTuple):
    """Samples of one pool's pods, by the clock of one source."""

    source: SignalSource = SignalSource.NONE
    pods: Mapping[str, Window] = MappingProxyType({})
    gone: Mapping[str, Window] = MappingProxyType({})
    """Last windows of pods that were just deleted or whose container just restarted."""


def advance_windows(
    windows: Windows, signals: PoolSignals, pods: Sequence[LawPod], now: float
) -> Windows:
    """Return the windows with this round's new samples; windows of deleted pods move to `gone` for a while.

    A change of source clears all windows, because the clocks of two sources may differ.
    """
    store_now, live = store_time(signals, now), {pod.uid for pod in pods}
    if signals.source is SignalSource.NONE:
        return windows._replace(gone=_gone(windows, windows.pods, live, store_now))
    same = windows.source == signals.source
    earlier = windows.pods if same else {}
    fresh = _by_pod(signals, store_now, earlier)
    extended = {
        pod.uid: _extend(earlier.get(pod.uid, ()), fresh.get(pod.uid, []), pod) for pod in pods
    }
    known = {uid: window for uid, window in extended.items() if window}
    gone = _gone(windows, known, live, store_now) if same else {}
    return Windows(signals.source, known, gone)


def _gone(
    before: Windows, after: Mapping[str, Window], live: Container[str], store_now: float
) -> dict[str, Window]:
    ended = {
        uid: window
        for uid, window in before.pods.items()
        if uid not in live or after[uid][0].time > window[-1].time
    }
    every = {**before.gone, **ended}
    return {
        uid: window for uid, window in every.items() if store_now - window[-1].time < GONE_SECONDS
    }


class RecentWindows(NamedTuple):
    """The windows that a tick measures demand and service by."""

    ready: Mapping[str, LawPod]
    """Ready pods that are not terminating, by UID."""
    fresh: Mapping[str, Window]
    """Windows of all pods with a recent sample, by UID."""
    full: Mapping[str, Window]
    """Those of them with enough samples for a rate."""
    past: Sequence[float]
    """Rates, in rows a second, that deleted or silent pods still add."""
    time: float
    """The present time by the clock of the samples."""


def recent_windows(
    pods: Iterable[LawPod],
    windows: Mapping[str, Window],
    gone: Mapping[str, Window],
    store_now: float,
) -> RecentWindows:
    """Return the windows that count at `store_now`; `gone` are windows of just deleted pods."""
    ready = {pod.uid: pod for pod in pods if pod.ready}
    fresh = {
        uid: window for uid, window in windows.items() if sample_age(window, store_now) is not None
    }
    full = {uid: whole for uid, window in fresh.items() if (whole := full_window(window))}
    silent = {uid: window for uid, window in windows.items() if uid not in ready}
    lost = [window for uid, window in {**silent, **gone}.items() if uid not in full]
    past = [rate for window in lost if (rate := _past_rate(window, store_now)) is not None]
    staying = {uid: pod for uid, pod in ready.items() if not pod.terminating}
    return RecentWindows(staying, fresh, full, past, store_now)


def _past_rate(window: Window, store_now: float) -> float | None:
    part = tuple(point for point in window if point.time >= store_now - GONE_SECONDS)
    if len(part) < 2:
        return None
    first, last = (point.counters.get("rows_received") for point in (part[0], part[-1]))
    return None if first is None or last is None else max(last - first, 0.0) / GONE_SECONDS


def newest_samples(signals: PoolSignals) -> dict[str, PodSample]:
    """Return the newest sample of each pod, by UID."""
    return {sample.uid: sample for sample in sorted(signals.samples, key=attrgetter("time"))}


def has_new_samples(before: Windows, after: Windows) -> bool:
    """Return whether any pod has a new sample."""
    return any(
        uid not in before.pods or before.pods[uid][-1].time != window[-1].time
        for uid, window in after.pods.items()
    )


def store_time(signals: PoolSignals, now: float) -> float:
    """Return the present time by the clock of the samples."""
    return now if signals.queried_at is None else signals.queried_at


def sample_age(window: Window, store_now: float) -> float | None:
    """Return the age of the newest sample in seconds; None if it is too old."""
    if not window or store_now - window[-1].time > MAX_AGE_SECONDS:
        return None
    return max(store_now - window[-1].time, 0.0)


def full_window(window: Window, since: float = 0.0) -> Window:
    """Return the samples from `since` on, or nothing if they are too few for a rate."""
    if window and window[0].time < since:
        window = tuple(sample for sample in window if sample.time >= since)
    if len(window) >= WINDOW_SCRAPES:
        return window
    return window if len(window) > 1 and window[-1].time - window[0].time >= FULL_SECONDS else ()


def _by_pod(
    signals: PoolSignals, store_now: float, kept: Mapping[str, Window]
) -> dict[str, list[PodSample]]:
    """Return the new samples of each pod, oldest first; most samples of a round are repeated from the round before."""
    fresh: dict[str, list[PodSample]] = {}
    for sample in signals.samples:
        window = kept.get(sample.uid)
        known = window and not sample.time - window[-1].time >= MIN_SPACING_SECONDS
        if not known and -MAX_AHEAD_SECONDS <= store_now - sample.time <= MAX_SPAN_SECONDS:
            fresh.setdefault(sample.uid, []).append(sample)
    for samples in fresh.values():
        samples.sort(key=lambda sample: sample.time)
    return fresh


def _extend(window: Window, fresh: Iterable[PodSample], pod: LawPod) -> Window:
    """Return the window with the samples that are at least `MIN_SPACING_SECONDS` apart."""
    for sample in fresh:
        if not window:
            first = point(sample)
            window = (*_birth(first, pod), first)
        elif sample.time - window[-1].time >= MIN_SPACING_SECONDS:
            new = point(sample)
            window = (new,) if restarted(window[-1], new) else (*window, new)
    return _trim(window)


def _birth(first: Point, pod: LawPod) -> Window:
    if pod.created is None or not 0 < first.time - pod.created <= YOUNG_SECONDS:
        return ()
    return (born(first, pod.created),)


def _trim(window: Window) -> Window:
    """Return the last `WINDOW_SECONDS`, at least `WINDOW_SCRAPES` samples, at most `MAX_SPAN_SECONDS`."""
    if not window:
        return window
    newest, needed, first = window[-1].time, len(window) - WINDOW_SCRAPES, 0
    while newest - window[first].time > (MAX_SPAN_SECONDS if first >= needed else WINDOW_SECONDS):
        first += 1
    return window[max(first, len(window) - MAX_SAMPLES) :]
