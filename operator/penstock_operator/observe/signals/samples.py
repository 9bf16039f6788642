"""Pod samples: parses metrics, scraped from a pod or read from Prometheus, into `PodSample`."""

import re
from collections.abc import Iterable, Mapping
from functools import lru_cache
from itertools import pairwise
from math import inf
from typing import Final, NamedTuple

from prometheus_client.parser import text_string_to_metric_families

from penstock_api import names
from penstock_api.pod_contract import SIZE_CLASSES, CurveSums
from penstock_operator.measured import measured
from penstock_operator.observed import GenerationSample, PodSample, UtilizationSource


class Reading(NamedTuple):
    """One value of one series; a tuple, because a large fleet has millions."""

    name: str
    labels: Mapping[str, str]
    value: float


class BadExposition(ValueError):
    """The text is not in the Prometheus exposition format, or its values are not those of a pod."""


_BUCKET = names.METRIC_BATCH_DURATION + "_bucket"
_REQUEST_BUCKET = names.METRIC_REQUEST_DURATION + "_bucket"
_FIRST_TOKEN_BUCKET = names.METRIC_TIME_TO_FIRST_TOKEN + "_bucket"
_OUTPUT_TOKEN_BUCKET = names.METRIC_TIME_PER_OUTPUT_TOKEN + "_bucket"
_SUMS = names.CURVE_METRICS
_SIZE_KEYS = tuple(
    tuple((str(2**size_class), term) for term in names.SIZE_TERMS)
    for size_class in range(SIZE_CLASSES)
)
_EPOCH_DIGITS = 15
_SOURCES = {"nvml": UtilizationSource.NVML, "enginebusyshare": UtilizationSource.ENGINE}

SAMPLE_METRICS = (
    names.METRIC_REQUESTS_WAITING,
    names.METRIC_REQUESTS_RUNNING,
    names.METRIC_REQUESTS_RECEIVED,
    names.METRIC_ROWS_RECEIVED,
    names.METRIC_SERVED,
    names.METRIC_OUT_OF_MEMORY_SPLITS,
    names.METRIC_BATCH_CAP,
    names.METRIC_BATCH_CAP_BOUND,
    names.METRIC_LIMITS_GENERATION,
    names.METRIC_POD_INFO,
    names.METRIC_GPU_UTILIZATION,
    names.METRIC_REQUESTS,
    names.METRIC_REQUESTS_REFUSED,
    names.METRIC_GENERATION_CURVE,
    names.METRIC_TOKENS,
    names.METRIC_KV_CACHE_USAGE,
    _BUCKET,
    *_SUMS.values(),
    names.METRIC_CURVE_BY_SIZE,
)
"""Metrics of every sample; those in `DURATIONS` are queried separately."""
DURATIONS = (_REQUEST_BUCKET, _FIRST_TOKEN_BUCKET, _OUTPUT_TOKEN_BUCKET)
"""Histograms from which requests on time are counted: as many series as all the others, so they have their own query."""
LABELS = ("uid", "le", "source", "outcome", "reason", "phase", "work", "epoch", "term", "size")
"""Labels that distinguish the series of one pod; labels that Prometheus adds are dropped."""
_LINES = re.compile(
    rf"^(?:{'|'.join(map(re.escape, (*SAMPLE_METRICS, *DURATIONS)))}).*", re.MULTILINE
)
MAX_LINE_LENGTH: Final = 200
"""Characters of a line of a known metric, of which a pod's have at most 90: the parser's time grows with their square."""
MAX_LENGTH: Final = 64 * 1024
"""Characters of all lines of known metrics, of which a pod that generates text has up to 16,000."""


def parse(text: str) -> tuple[Reading, ...]:
    """Return the readings of the known metrics in a text exposition. Raises `BadExposition`.

    Only their lines are parsed, because parsing is most of the cost, and only as many as a pod has: any code may run in a
    pod, and the parser holds the event loop.
    """
    known = _LINES.findall(text)
    lines = "\n".join(known)
    if len(lines) > MAX_LENGTH or max(map(len, known), default=0) > MAX_LINE_LENGTH:
        raise BadExposition("responded with more text than the metrics of a pod have")
    try:
        return tuple(
            Reading(sample.name, sample.labels, float(sample.value))
            for family in text_string_to_metric_families(lines)
            for sample in family.samples
        )
    except (ValueError, LookupError, OverflowError) as error:
        raise BadExposition("did not respond in the Prometheus text format") from error


def reported_uid(readings: Iterable[Reading]) -> str | None:
    """Return the pod UID in the readings; None if there is none, or several."""
    uids = {
        reading.labels.get("uid") for reading in readings if reading.name == names.METRIC_POD_INFO
    }
    return uids.pop() if len(uids) == 1 else None


def pod_sample(readings: Iterable[Reading], uid: str, time: float) -> PodSample:
    """Return the sample of a pod at `time`; missing, NaN, negative and infinite values are None. Raises `BadExposition`."""
    try:
        return _pod_sample(readings, uid, time)
    except (ArithmeticError, LookupError, TypeError, ValueError) as error:
        raise BadExposition("responded with values that no pod has") from error


def _pod_sample(readings: Iterable[Reading], uid: str, time: float) -> PodSample:
    by_name: dict[str, list[Reading]] = {}
    for reading in readings:
        by_name.setdefault(reading.name, []).append(reading)

    def value(name: str) -> float | None:
        series = by_name.get(name, [])
        return measured(series[0].value) if len(series) == 1 else None

    served = {each.labels.get("work"): each.value for each in by_name.get(names.METRIC_SERVED, [])}
    duty, source = _duty(by_name.get(names.METRIC_GPU_UTILIZATION, []))
    return PodSample(
        uid=uid,
        time=time,
        waiting=value(names.METRIC_REQUESTS_WAITING),
        running=value(names.METRIC_REQUESTS_RUNNING),
        requests_received=value(names.METRIC_REQUESTS_RECEIVED),
        rows_received=value(names.METRIC_ROWS_RECEIVED),
        interactive_served=measured(served.get("interactive")),
        batch_served=measured(served.get("batch")),
        curve=_curve(
            {field: value(name) for field, name in _SUMS.items()},
            by_name.get(names.METRIC_CURVE_BY_SIZE, []),
        ),
        batch_duration_buckets=_buckets(by_name.get(_BUCKET, [])),
        out_of_memory_splits=value(names.METRIC_OUT_OF_MEMORY_SPLITS),
        batch_cap=value(names.METRIC_BATCH_CAP),
        batch_cap_bound=value(names.METRIC_BATCH_CAP_BOUND),
        limits_generation=value(names.METRIC_LIMITS_GENERATION),
        gpu_utilization=duty,
        duty_source=source,
        requests_settled=_settled(by_name),
        requests_completed=_completed(by_name),
        request_duration_buckets=_buckets(by_name.get(_REQUEST_BUCKET, [])),
        generation=_generation(by_name),
    )


def _generation(by_name: Mapping[str, list[Reading]]) -> GenerationSample | None:
    """Return the metrics of a pod that generates text; None without sums over steps."""
    epochs: dict[int, dict[str, float]] = {}
    for reading in by_name.get(names.METRIC_GENERATION_CURVE, []):
        value, epoch = measured(reading.value), reading.labels.get("epoch", "")
        if value is not None and epoch.isdecimal() and len(epoch) <= _EPOCH_DIGITS:
            epochs.setdefault(int(epoch), {})[reading.labels.get("term", "")] = value
    complete = {
        epoch: tuple(terms[term] for term in names.GENERATION_TERMS)
        for epoch, terms in epochs.items()
        if all(term in terms for term in names.GENERATION_TERMS)
    }
    if not complete:
        return None
    newest = max(complete)
    phases = {each.labels.get("phase"): each.value for each in by_name.get(names.METRIC_TOKENS, [])}
    usage = by_name.get(names.METRIC_KV_CACHE_USAGE, [])
    return GenerationSample(
        epoch=newest,
        sums=complete[newest],
        warm_up=complete.get(0) if newest else None,
        generated_tokens=measured(phases.get("decode")),
        cache_usage=measured(usage[0].value) if len(usage) == 1 else None,
        first_token_buckets=_buckets(by_name.get(_FIRST_TOKEN_BUCKET, [])),
        output_token_buckets=_buckets(by_name.get(_OUTPUT_TOKEN_BUCKET, [])),
    )


def _settled(by_name: Mapping[str, list[Reading]]) -> float | None:
    """Return the number of ended requests plus rejections without client faults, and without batch work; None without outcomes.

    A request that was handed over ends at the pod that completed it. Pods of an earlier version count all work together.
    """
    ended = [
        reading
        for reading in by_name.get(names.METRIC_REQUESTS, [])
        if reading.labels.get("outcome") != "HandedOver"
    ]
    rejected = [
        reading
        for reading in by_name.get(names.METRIC_REQUESTS_REFUSED, [])
        if reading.labels.get("reason") not in names.CLIENT_FAULTS
    ]
    settled = [each.value for each in (*ended, *rejected) if each.labels.get("work") != "batch"]
    return measured(sum(settled)) if ended else None


def _completed(by_name: Mapping[str, list[Reading]]) -> float | None:
    """Return the number of completed requests, batch work included; None without outcomes."""
    ended = by_name.get(names.METRIC_REQUESTS, [])
    completed = [each.value for each in ended if each.labels.get("outcome") == "Completed"]
    return measured(sum(completed)) if completed else None


def _curve(sums: Mapping[str, float | None], by_size: list[Reading]) -> CurveSums | None:
    known = {field: value for field, value in sums.items() if value is not None}
    if len(known) < len(sums):
        return None
    return CurveSums.model_validate({**known, "by_size": _by_size(by_size)})


def _by_size(readings: list[Reading]) -> tuple[float, ...]:
    """Return `CurveSums.by_size`; empty if a series is missing or invalid."""
    values = {(each.labels.get("size"), each.labels.get("term")): each.value for each in readings}
    classes = len(values) // len(_SIZE_KEYS[0])
    ordered = [measured(values.get(key)) for keys in _SIZE_KEYS[:classes] for key in keys]
    known = tuple(value for value in ordered if value is not None)
    return known if len(known) == len(values) else ()


def _duty(readings: list[Reading]) -> tuple[float | None, UtilizationSource | None]:
    """Return the duty of the most direct source; a value above 1 is invalid and absent."""
    by_source = {
        _SOURCES.get(each.labels.get("source", "").lower()): each.value for each in readings
    }
    for source in (UtilizationSource.NVML, UtilizationSource.ENGINE):
        value = measured(by_source.get(source))
        if value is not None and value <= 1:
            return value, source
    return None, None


_bound = lru_cache(maxsize=1024)(float)
"""Cached, because few bounds are parsed millions of times."""


def _buckets(readings: list[Reading]) -> tuple[tuple[float, float], ...]:
    """Return ascending (upper bound, cumulative count); empty if the readings are not a histogram."""
    try:
        buckets = sorted([(_bound(each.labels["le"]), each.value) for each in readings])
    except (KeyError, ValueError):
        return ()
    complete = all(measured(count) is not None for _, count in buckets)
    rising = all(a < b and below <= above for (a, below), (b, above) in pairwise(buckets))
    return tuple(buckets) if buckets and buckets[-1][0] == inf and complete and rising else ()
