"""Windows of samples, one per pod UID (docs/design/control-law.md#data). Pure.

Counters are differenced by the operator from raw values, so that no rate ever spans two pods or a restart.
"""

from collections.abc import Container, Iterable, Mapping, Sequence
from dataclasses import dataclass, field, replace

from penstock_operator.decide.scaling.law import LawPod
from penstock_operator.decide.scaling.signals.counters import Point, born, point, restarted
from penstock_operator.observed import PodSample, PoolSignals, SignalSource

MAX_AGE_SECONDS = 10.0
"""An older sample is not used: two scrapes of 5 s were missed."""
WINDOW_SECONDS = 30.0
"""A window is this long, or as long as it takes to hold `WINDOW_SCRAPES`."""
WINDOW_SCRAPES = 4
"""Fewer say nothing about a rate: the window is absent."""
MAX_SPAN_SECONDS = 180.0
"""Nothing older is kept: six of the 30 s ticks of an idle pool."""
MAX_SAMPLES = 32
"""Bounds the memory of a pod's window, however often it is scraped."""
MIN_SPACING_SECONDS = 0.5
"""Samples closer than this add no knowledge of a rate: a pool visited twice in a moment."""
YOUNG_SECONDS = 10.0
"""Two scrapes: the counters of a pod this young when first seen began at 0 with it."""

GONE_SECONDS = 30.0
"""What a pod that is gone was asked for counts so long: a kill or a rollout is no dip in demand."""

Window = tuple[Point, ...]
"""Points of one pod, oldest first."""


@dataclass(frozen=True, slots=True)
class Windows:
    """The samples kept of one pool's pods, by the clock of one source."""

    source: SignalSource = SignalSource.NONE
    pods: Mapping[str, Window] = field(default_factory=dict)
    gone: Mapping[str, Window] = field(default_factory=dict)
    """The last windows of pods that just went, or whose container just began anew."""


def advance_windows(
    windows: Windows, signals: PoolSignals, pods: Sequence[LawPod], now: float
) -> Windows:
    """Return the windows with this round's new samples; of pods that went the last ones are kept apart for a while.

    A change of source starts all windows anew: the clocks of two stores need not agree.
    """
    asked, live = store_time(signals, now), {pod.uid for pod in pods}
    if signals.source is SignalSource.NONE:
        return replace(windows, gone=_gone(windows, windows.pods, live, asked))
    same = windows.source == signals.source
    held = windows.pods if same else {}
    fresh = _by_pod(signals, asked, held)
    extended = {
        pod.uid: _extend(held.get(pod.uid, ()), fresh.get(pod.uid, []), pod) for pod in pods
    }
    known = {uid: window for uid, window in extended.items() if window}
    gone = _gone(windows, known, live, asked) if same else {}
    return Windows(signals.source, known, gone)


def _gone(
    before: Windows, after: Mapping[str, Window], live: Container[str], asked: float
) -> dict[str, Window]:
    ended = {
        uid: one
        for uid, one in before.pods.items()
        if uid not in live or after[uid][0].time > one[-1].time
    }
    every = {**before.gone, **ended}
    return {uid: one for uid, one in every.items() if asked - one[-1].time < GONE_SECONDS}


def lost_rates(
    windows: Mapping[str, Window],
    gone: Mapping[str, Window],
    serving: Container[str],
    measured: Container[str],
    asked: float,
) -> list[float]:
    """Return the rows a second that pods just lost, or silent ones, still add to the windows that end now, unless `measured` anew."""
    silent = {uid: one for uid, one in windows.items() if uid not in serving}
    lost = {**silent, **gone}
    rates = (_past_rate(one, asked) for uid, one in lost.items() if uid not in measured)
    return [rate for rate in rates if rate is not None]


def _past_rate(window: Window, asked: float) -> float | None:
    part = tuple(one for one in window if one.time >= asked - GONE_SECONDS)
    if len(part) < 2:
        return None
    first, last = (one.counters.get("rows_received") for one in (part[0], part[-1]))
    return None if first is None or last is None else max(last - first, 0.0) / GONE_SECONDS


def has_new_samples(before: Windows, after: Windows) -> bool:
    """Return whether any pod has a sample that it did not have before."""
    return any(
        uid not in before.pods or before.pods[uid][-1].time != window[-1].time
        for uid, window in after.pods.items()
    )


def store_time(signals: PoolSignals, now: float) -> float:
    """Return the time by the clock that dated the samples."""
    return now if signals.queried_at is None else signals.queried_at


def sample_age(window: Window, asked: float) -> float | None:
    """Return the age in seconds of the newest sample; None where it is too old to be used."""
    if not window or asked - window[-1].time > MAX_AGE_SECONDS:
        return None
    return max(asked - window[-1].time, 0.0)


def full_window(window: Window, since: float = 0.0) -> Window:
    """Return the samples not older than `since`, or nothing where they are too few for a rate."""
    if window and window[0].time < since:
        window = tuple(sample for sample in window if sample.time >= since)
    return window if len(window) >= WINDOW_SCRAPES else ()


def _by_pod(
    signals: PoolSignals, asked: float, held: Mapping[str, Window]
) -> dict[str, list[PodSample]]:
    """Return each pod's samples that its window lacks, oldest first: most of a round were in the one before."""
    found: dict[str, list[PodSample]] = {}
    for sample in signals.samples:
        window = held.get(sample.uid)
        known = window and not sample.time - window[-1].time >= MIN_SPACING_SECONDS
        if not known and -MAX_AGE_SECONDS <= asked - sample.time <= MAX_SPAN_SECONDS:
            found.setdefault(sample.uid, []).append(sample)
    for samples in found.values():
        samples.sort(key=lambda one: one.time)
    return found


def _extend(window: Window, fresh: Iterable[PodSample], pod: LawPod) -> Window:
    """Return the window with the pod's samples that are spaced enough to add to it."""
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
    """Keep the last `WINDOW_SECONDS`, at least `WINDOW_SCRAPES`, never beyond `MAX_SPAN_SECONDS`."""
    if not window:
        return window
    newest, needed, first = window[-1].time, len(window) - WINDOW_SCRAPES, 0
    while newest - window[first].time > (MAX_SPAN_SECONDS if first >= needed else WINDOW_SECONDS):
        first += 1
    return window[max(first, len(window) - MAX_SAMPLES) :]
