"""From what a pod exposes to a `PodSample`: the same for a scraped text and for a store's series."""

from collections.abc import Iterable, Mapping
from functools import lru_cache
from itertools import pairwise
from math import inf
from typing import NamedTuple

from prometheus_client.parser import text_string_to_metric_families

from penstock_api import names
from penstock_api.limits import CurveSums
from penstock_operator.observed import GenerationSample, PodSample, UtilizationSource, measured


class Reading(NamedTuple):
    """One value of one series; a tuple, for there are millions in the answer about a large fleet."""

    name: str
    labels: Mapping[str, str]
    value: float


class BadExposition(ValueError):
    """The text is not in Prometheus' format."""


_BUCKET = names.METRIC_BATCH_DURATION + "_bucket"
_REQUEST_BUCKET = names.METRIC_REQUEST_DURATION + "_bucket"
_FIRST_TOKEN_BUCKET = names.METRIC_TIME_TO_FIRST_TOKEN + "_bucket"
_OUTPUT_TOKEN_BUCKET = names.METRIC_TIME_PER_OUTPUT_TOKEN + "_bucket"
_SUMS = names.CURVE_METRICS
_SOURCES = {"nvml": UtilizationSource.NVML, "enginebusyshare": UtilizationSource.ENGINE}

WANTED = (
    names.METRIC_REQUESTS_WAITING,
    names.METRIC_REQUESTS_RUNNING,
    names.METRIC_REQUESTS_RECEIVED,
    names.METRIC_ROWS_RECEIVED,
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
)
"""What every sample is made from: the rest is for people, and for `DURATIONS`."""
DURATIONS = (_REQUEST_BUCKET, _FIRST_TOKEN_BUCKET, _OUTPUT_TOKEN_BUCKET)
"""What requests on time are counted from: as many series again, so they are asked for by themselves."""
HISTORY = (
    names.METRIC_REQUESTS_WAITING,
    names.METRIC_REQUESTS_RUNNING,
    names.METRIC_REQUESTS_RECEIVED,
    names.METRIC_ROWS_RECEIVED,
    names.METRIC_POD_INFO,
    names.METRIC_GENERATION_CURVE,
    *_SUMS.values(),
)
"""What a law's memory is rebuilt from: demand and curves."""
LABELS = ("uid", "le", "source", "outcome", "reason", "phase", "epoch", "term")
"""What tells series of one pod apart: a store adds labels of its own to each, which are not held."""
_LINES = (*WANTED, *DURATIONS)


def parse(text: str) -> tuple[Reading, ...]:
    """Return the wanted readings of a text exposition; raises `BadExposition`.

    Only wanted lines are parsed, which is most of the cost; types and help change no value.
    """
    lines = "\n".join(line for line in text.split("\n") if line.startswith(_LINES))
    try:
        return tuple(
            Reading(sample.name, sample.labels, float(sample.value))
            for family in text_string_to_metric_families(lines)
            for sample in family.samples
        )
    except (ValueError, LookupError, OverflowError) as error:
        raise BadExposition("did not answer in Prometheus' text format") from error


def reported_uid(readings: Iterable[Reading]) -> str | None:
    """Return the pod UID that the readings say they are of."""
    found = {one.labels.get("uid") for one in readings if one.name == names.METRIC_POD_INFO}
    return found.pop() if len(found) == 1 else None


def pod_sample(readings: Iterable[Reading], uid: str, time: float) -> PodSample:
    """Return the sample of a pod at `time`; what is missing, NaN, negative or infinite is None."""
    by_name: dict[str, list[Reading]] = {}
    for one in readings:
        by_name.setdefault(one.name, []).append(one)

    def value(name: str) -> float | None:
        found = by_name.get(name, [])
        return measured(found[0].value) if len(found) == 1 else None

    duty, source = _duty(by_name.get(names.METRIC_GPU_UTILIZATION, []))
    return PodSample(
        uid=uid,
        time=time,
        waiting=value(names.METRIC_REQUESTS_WAITING),
        running=value(names.METRIC_REQUESTS_RUNNING),
        requests_received=value(names.METRIC_REQUESTS_RECEIVED),
        rows_received=value(names.METRIC_ROWS_RECEIVED),
        curve=_curve({field: value(name) for field, name in _SUMS.items()}),
        batch_duration_buckets=_buckets(by_name.get(_BUCKET, [])),
        out_of_memory_splits=value(names.METRIC_OUT_OF_MEMORY_SPLITS),
        batch_cap=value(names.METRIC_BATCH_CAP),
        batch_cap_bound=value(names.METRIC_BATCH_CAP_BOUND),
        limits_generation=value(names.METRIC_LIMITS_GENERATION),
        gpu_utilization=duty,
        duty_source=source,
        requests_settled=_settled(by_name),
        request_duration_buckets=_buckets(by_name.get(_REQUEST_BUCKET, [])),
        generation=_generation(by_name),
    )


def _generation(by_name: Mapping[str, list[Reading]]) -> GenerationSample | None:
    """Return what only pods that generate text say; None where they say nothing of their steps."""
    epochs: dict[int, dict[str, float]] = {}
    for one in by_name.get(names.METRIC_GENERATION_CURVE, []):
        value, epoch = measured(one.value), one.labels.get("epoch", "")
        if value is not None and epoch.isdecimal():
            epochs.setdefault(int(epoch), {})[one.labels.get("term", "")] = value
    whole = {
        epoch: tuple(held[term] for term in names.GENERATION_TERMS)
        for epoch, held in epochs.items()
        if all(term in held for term in names.GENERATION_TERMS)
    }
    if not whole:
        return None
    newest = max(whole)
    phases = {one.labels.get("phase"): one.value for one in by_name.get(names.METRIC_TOKENS, [])}
    usage = by_name.get(names.METRIC_KV_CACHE_USAGE, [])
    return GenerationSample(
        epoch=newest,
        sums=whole[newest],
        warm_up=whole.get(0) if newest else None,
        generated_tokens=measured(phases.get("decode")),
        cache_usage=measured(usage[0].value) if len(usage) == 1 else None,
        first_token_buckets=_buckets(by_name.get(_FIRST_TOKEN_BUCKET, [])),
        output_token_buckets=_buckets(by_name.get(_OUTPUT_TOKEN_BUCKET, [])),
    )


def _settled(by_name: Mapping[str, list[Reading]]) -> float | None:
    """Return ended requests and refusals, those by the client's own fault left out; None where no end is told."""
    ended = by_name.get(names.METRIC_REQUESTS, [])
    refused = [
        one
        for one in by_name.get(names.METRIC_REQUESTS_REFUSED, [])
        if one.labels.get("reason") not in names.CLIENT_FAULTS
    ]
    return measured(sum(one.value for one in [*ended, *refused])) if ended else None


def _curve(sums: Mapping[str, float | None]) -> CurveSums | None:
    known = {field: value for field, value in sums.items() if value is not None}
    return CurveSums.model_validate(known) if len(known) == len(sums) else None


def _duty(readings: list[Reading]) -> tuple[float | None, UtilizationSource | None]:
    """Return the duty of the most direct source; above 1 it is no share, so it is absent."""
    by_source = {_SOURCES.get(one.labels.get("source", "").lower()): one.value for one in readings}
    for source in (UtilizationSource.NVML, UtilizationSource.ENGINE):
        value = measured(by_source.get(source))
        if value is not None and value <= 1:
            return value, source
    return None, None


_bound = lru_cache(maxsize=1024)(float)
"""Bounds are few, and read millions of times."""


def _buckets(readings: list[Reading]) -> tuple[tuple[float, float], ...]:
    """Return ascending (upper bound, cumulative count), or nothing where they make no histogram."""
    try:
        found = sorted([(_bound(one.labels["le"]), one.value) for one in readings])
    except (KeyError, ValueError):
        return ()
    whole = all(measured(count) is not None for _, count in found)
    rising = all(a < b and below <= above for (a, below), (b, above) in pairwise(found))
    return tuple(found) if found and found[-1][0] == inf and whole and rising else ()
