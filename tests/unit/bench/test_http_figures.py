"""The HTTP bench reports medians and ratios of measured figures and omits absent ones."""

from pathlib import Path
from typing import Any

import pytest
from rich.console import Console

from tests.bench.encoders import __main__ as encoders
from tests.bench.encoders import chart
from tests.bench.encoders.contenders import contenders
from tests.bench.encoders.subjects import EMBEDDER, ENCODER
from tests.bench.http import show
from tests.bench.http.figures import HttpFigures


def measured_run(right: int, cpu_seconds: float = 1.0, memory: float = 115.0) -> dict[str, Any]:
    return {
        "right": right,
        "seconds": 2.0,
        "cpu_seconds": cpu_seconds,
        "memory": memory,
        "p99": 5.0,
    }


def figures(**rights: list[int]) -> HttpFigures:
    result = HttpFigures({"bare_torch_bytes": 100.0})
    for name, rounds in rights.items():
        for right in rounds:
            result.note(name.replace("_", " "), 64, measured_run(right))
    return result


def test_a_rate_is_the_median_of_its_rounds() -> None:
    assert figures(penstock=[100, 900, 200]).rate("penstock", 64) == 100.0


def test_a_peak_is_the_best_rate_of_any_number_of_connections() -> None:
    result = figures(penstock=[400])
    result.note("penstock", 256, measured_run(320))
    assert result.peak("penstock") == (200.0, 64)
    assert result.peak("absent") == (0.0, 64)


def test_ratios_are_to_the_best_setting_of_a_peer() -> None:
    result = figures(penstock=[600], Mosec_a=[300], Mosec_b=[500], raw_asyncio_sketch=[900])
    lines = {line: measured for line, measured, _ in result.ratios()}
    assert lines["requests/s / Mosec's best, 64 connections"] == pytest.approx(1.2)
    assert lines["CPU a request / raw sketch's, 64 connections (at most)"] == pytest.approx(1.5)
    assert lines["memory / bare torch with the network (at most)"] == pytest.approx(1.15)


def test_what_was_not_measured_is_left_out() -> None:
    result = figures(penstock=[600])
    assert [line for line, _, _ in result.ratios()] == [
        "memory / bare torch with the network (at most)"
    ]
    assert result.as_json()["absent"] == {}


def overloaded(goodput: float, grown: float) -> dict[str, Any]:
    return {
        "goodput_ratio": goodput,
        "goodput_ratio_by_cpu": goodput,
        "p99_milliseconds": 0.0,
        "deadline_milliseconds": 1000,
        "memory_grown": grown * 2**20,
    }


def test_a_goodput_of_nothing_is_a_line_that_misses_its_target() -> None:
    result = figures(penstock=[600])
    result.overload = overloaded(0.0, grown=17.0)
    lines = {line: (measured, target) for line, measured, target in result.ratios()}
    assert lines["3x overload: goodput / peak"] == (0.0, 0.75)
    assert lines["3x overload: goodput / peak, by CPU a right answer"] == (0.0, 0.75)
    assert lines["MiB grown under overload (at most)"] == (17.0, 16.0)


def test_a_server_that_answered_nothing_right_is_measured_and_its_peers_are_not_divided_by_it() -> (
    None
):
    result = figures(penstock=[0], Mosec=[500], LitServe=[0])
    lines = {line: measured for line, measured, _ in result.ratios()}
    assert lines["requests/s / Mosec's best, 64 connections"] == 0.0
    assert "requests/s / LitServe's, 64 connections" not in lines


def test_a_sketch_on_uvloop_is_reported_in_addition_and_has_no_target() -> None:
    rounds = {"penstock": [600], "raw asyncio sketch": [900], "raw asyncio sketch, uvloop": [1200]}
    result = figures(**rounds)
    lines = {line: (round(measured, 3), target) for line, measured, target in result.ratios()}
    assert lines["CPU a request / raw sketch's, 64 connections (at most)"] == (1.5, 1.35)
    assert lines["CPU a request / raw sketch's on uvloop, 64 connections"] == (2.0, None)
    console = Console(record=True, width=200)
    console.print(show._ratios(result))
    assert "raw sketch's on uvloop, 64 connections" in console.export_text()
    assert result.as_json()["ratios"][1]["target"] is None


RAW = {
    "untouched": 45.0,
    "packed": 100.0,
    "prepacked": 90.0,
    "untouched, one row": 40.0,
    "packed, one row": 50.0,
    "prepacked, sorted by length": 90.0,
}


def test_a_body_of_one_kind_is_compared_with_bodies_of_its_kind_alone() -> None:
    rates = {
        "penstock": {1: 40.0, 64: 80.0},
        "penstock, binary": {1: 50.0, 64: 90.0},
        "Mosec, 1 ms": {64: 40.0},
        "Triton (PyTriton), no wait": {64: 20.0},
        "Triton (PyTriton), no wait, binary": {64: 60.0},
    }
    lines = {line["line"]: line["measured"] for line in encoders.ratios(ENCODER, RAW, rates)}
    assert lines == {
        "JSON, 64 connections / untouched raw torch": 1.778,
        "JSON, 64 connections / raw torch, packed and prepacked": 0.8,
        "JSON, 1 connection / untouched raw torch, one row": 1.0,
        "JSON, 1 connection / packed raw torch, one row": 0.8,
        "JSON, 64 connections / the best peer by JSON": 2.0,
        "binary, 64 connections / untouched raw torch": 2.0,
        "binary, 64 connections / raw torch, packed and prepacked": 0.9,
        "binary, 1 connection / untouched raw torch, one row": 1.25,
        "binary, 1 connection / packed raw torch, one row": 1.0,
        "binary, 64 connections / the best peer by binary": 1.5,
    }


def test_the_embedders_lines_compare_texts_with_texts() -> None:
    rates = {"penstock": {64: 90.0, 256: 90.0}, "Infinity": {64: 45.0}}
    lines = {line["line"]: line["measured"] for line in encoders.ratios(EMBEDDER, RAW, rates)}
    assert lines == {
        "64 connections / the best peer": 2.0,
        "64 connections / length-sorted or packed raw torch": 0.9,
        "256 connections / length-sorted or packed raw torch": 0.9,
    }


def test_binary_bodies_are_measured_for_penstock_and_triton_on_the_encoder_only(
    tmp_path: Path,
) -> None:
    binaries = [
        contender.name for contender in contenders(ENCODER, tmp_path) if contender.body == "binary"
    ]
    assert binaries == ["penstock, binary", "Triton (PyTriton), no wait, binary"]
    assert not [
        contender for contender in contenders(EMBEDDER, tmp_path) if contender.body == "binary"
    ]


def test_the_encoders_chart_has_a_panel_for_each_subject(tmp_path: Path) -> None:
    subjects = {
        name: {"raw": RAW, "rates": {"penstock": {1: 40.0, 64: 80.0}, "Mosec, 1 ms": {64: 40.0}}}
        for name in ("encoder", "embedder")
    }
    assert chart.draw(subjects, tmp_path).stat().st_size > 10_000


def test_the_encoders_lines_keep_a_rate_of_nothing_and_the_growth_of_memory() -> None:
    raw = RAW | {"untouched": 0.0}
    lines = encoders.ratios(ENCODER, raw, {"penstock": {64: 0.0}, "peer": {64: 10.0}})
    assert {line["line"]: line["measured"] for line in lines} == {
        "JSON, 64 connections / raw torch, packed and prepacked": 0.0,
        "JSON, 64 connections / the best peer by JSON": 0.0,
    }
    beyond = {line["line"]: line for line in encoders.overload_lines(overloaded(0.0, grown=17.0))}
    assert beyond["3x overload: goodput / peak"]["measured"] == 0.0
    assert beyond["MiB grown under overload (at most)"]["target"] == 16.0
