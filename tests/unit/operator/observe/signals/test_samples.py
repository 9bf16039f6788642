"""Samples from exposition text: invalid values are absent, never zero."""

from math import inf

import pytest
from hypothesis import given
from hypothesis import strategies as st

from penstock_api import names
from penstock_api.pod_contract import CurveSums
from penstock_operator.observe.signals import samples
from penstock_operator.observe.signals.samples import (
    BadExposition,
    Reading,
    parse,
    pod_sample,
    reported_uid,
)
from penstock_operator.observed import PodSample, UtilizationSource
from penstock_runtime.telemetry.gpu import DutySource as RuntimeDutySource
from tests.unit.operator.observe.signals.exporter import Figures


def read(figures: Figures) -> PodSample:
    return pod_sample(parse(figures.text()), "uid-1", 5.0)


def test_all_metrics_of_a_pod_are_read() -> None:
    assert read(Figures()) == PodSample(
        uid="uid-1",
        time=5.0,
        waiting=3.0,
        running=2.0,
        requests_received=100.0,
        rows_received=100.0,
        curve=CurveSums(
            batches=10,
            cost_units=40,
            cost_units_squared=200,
            seconds=0.6,
            cost_unit_seconds=2.5,
            seconds_squared=0.04,
        ),
        batch_duration_buckets=((0.05, 4.0), (0.1, 10.0), (inf, 10.0)),
        out_of_memory_splits=0.0,
        batch_cap=8.0,
        batch_cap_bound=64.0,
        limits_generation=7.0,
        gpu_utilization=0.5,
        duty_source=UtilizationSource.ENGINE,
    )


@pytest.mark.parametrize("value", [float("nan"), inf, -inf, -1.0, 1e300])
def test_a_value_that_is_not_a_measurement_is_absent(value: float) -> None:
    sample = read(Figures(waiting=value, rows=value))
    assert sample.waiting is None
    assert sample.rows_received is None
    assert sample.running == 2.0, "other values are read"


CLASSES = tuple(
    (size, term, value)
    for size, values in (("1", (1.0, 1.0, 0.1)), ("2", (0.0, 0.0, 0.0)), ("4", (5.0, 18.0, 0.7)))
    for term, value in zip(names.SIZE_TERMS, values, strict=True)
)


def test_sums_by_size_are_read_in_order_whatever_the_order_of_their_series() -> None:
    curve = read(Figures(by_size=CLASSES[::-1])).curve
    assert curve is not None
    assert curve.by_size == (1.0, 1.0, 0.1, 0.0, 0.0, 0.0, 5.0, 18.0, 0.7)


@pytest.mark.parametrize(
    "classes",
    [
        CLASSES[:-1],
        CLASSES[3:],
        (*CLASSES[:-1], ("4", "seconds", -1.0)),
        (*CLASSES[:-1], ("3", "seconds", 0.7)),
        (*CLASSES, ("8192", "batches", 1.0), ("8192", "cost_units", 1.0), ("8192", "seconds", 1.0)),
    ],
)
def test_incomplete_sums_by_size_leave_the_totals(
    classes: tuple[tuple[str, str, float], ...],
) -> None:
    curve = read(Figures(by_size=classes)).curve
    assert curve is not None
    assert curve.by_size == ()
    assert curve.batches == 10


def test_an_invalid_sum_makes_the_curve_absent() -> None:
    assert read(Figures(sums=(10.0, 40.0, float("nan"), 0.6, 2.5, 0.04))).curve is None


def test_nvml_takes_precedence_over_the_busy_share_of_the_engine() -> None:
    sample = read(Figures(duty={"EngineBusyShare": 0.2, "NVML": 0.9}))
    assert (sample.gpu_utilization, sample.duty_source) == (0.9, UtilizationSource.NVML)
    sample = read(Figures(duty={"EngineBusyShare": 0.2, "NVML": 90.0}))
    assert (sample.gpu_utilization, sample.duty_source) == (0.2, UtilizationSource.ENGINE), (
        "90 is not a share"
    )


@pytest.mark.parametrize(
    "buckets",
    [
        (("0.1", 5.0), ("0.2", 9.0)),
        (("0.1", 9.0), ("0.2", 5.0), ("+Inf", 9.0)),
        (("0.1", -1.0), ("+Inf", 9.0)),
        (("0.1", 1.0), ("+Inf", float("nan"))),
    ],
)
def test_buckets_that_are_no_histogram_are_absent(buckets: tuple[tuple[str, float], ...]) -> None:
    assert read(Figures(buckets=buckets)).batch_duration_buckets == ()


def test_a_duplicate_series_is_absent() -> None:
    twice = [Reading("penstock_requests_waiting", {"x": str(i)}, 1.0) for i in range(2)]
    assert pod_sample(twice, "uid-1", 0.0).waiting is None


def test_the_uid_of_the_pod_is_in_the_exposition() -> None:
    assert reported_uid(parse(Figures(uid="abc").text())) == "abc"
    assert reported_uid(()) is None
    both = (*parse(Figures(uid="abc").text()), *parse(Figures(uid="def").text()))
    assert reported_uid(both) is None


def test_an_invalid_text_is_an_error() -> None:
    with pytest.raises(BadExposition, match="text format"):
        parse("penstock_requests_waiting three\n")


@pytest.mark.parametrize(
    "text",
    [
        "penstock_requests_waiting{" + ",".join(f'a{i}=""' for i in range(20_000)) + "} 1\n",
        'penstock_request_duration_seconds_bucket{le="0.1"} 1.0\n' * 20_000,
    ],
    ids=["a long line", "many lines"],
)
def test_more_text_than_a_pod_has_is_an_error_before_it_is_parsed(
    text: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    parsed: list[str] = []
    monkeypatch.setattr(samples, "text_string_to_metric_families", parsed.append)
    with pytest.raises(BadExposition, match="more text than the metrics of a pod have"):
        parse(text)
    assert parsed == []


def test_lines_of_other_metrics_may_be_of_any_length_and_number() -> None:
    others = "".join(f'own_{i}{{a="{"x" * 1000}"}} 1\n' for i in range(1000))
    assert reported_uid(parse(others + Figures(uid="abc").text() + others)) == "abc"


def test_an_epoch_of_any_length_is_no_error() -> None:
    labels = {"term": names.GENERATION_TERMS[0], "epoch": "9" * 5000}
    reading = Reading(names.METRIC_GENERATION_CURVE, labels, 1.0)
    assert pod_sample([reading], "uid-1", 0.0).generation is None


@given(
    st.text(max_size=200)
    | st.text(st.sampled_from('penstock_requests_waiting{}="\\,0123.eE+-# \n'), max_size=80)
)
def test_any_text_is_parsed_or_an_error(text: str) -> None:
    for line in (text, "penstock_requests_waiting" + text, 'penstock_pod_info{uid="' + text):
        try:
            sample = pod_sample(parse(line), "uid-1", 0.0)
        except BadExposition:
            continue
        assert sample.waiting is None or 0 <= sample.waiting <= 1e15


@pytest.mark.parametrize("source", list(RuntimeDutySource))
def test_every_utilization_source_of_the_runtime_is_known(source: RuntimeDutySource) -> None:
    assert read(Figures(duty={source.value: 0.4})).gpu_utilization == 0.4
