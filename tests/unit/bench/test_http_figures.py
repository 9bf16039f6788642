"""The bench over HTTP tells medians and ratios of what it measured, and leaves out what it did not."""

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


def seen(right: int, cpu_seconds: float = 1.0, memory: float = 115.0) -> dict[str, Any]:
    return {
        "right": right,
        "seconds": 2.0,
        "cpu_seconds": cpu_seconds,
        "memory": memory,
        "p99": 5.0,
    }


def figures(**rights: list[int]) -> HttpFigures:
    found = HttpFigures({"bare_torch_bytes": 100.0})
    for name, rounds in rights.items():
        for right in rounds:
            found.note(name.replace("_", " "), 64, seen(right))
    return found


def test_a_rate_is_the_median_of_its_rounds() -> None:
    assert figures(penstock=[100, 900, 200]).rate("penstock", 64) == 100.0


def test_a_peak_is_the_best_rate_of_any_number_of_connections() -> None:
    found = figures(penstock=[400])
    found.note("penstock", 256, seen(320))
    assert found.peak("penstock") == (200.0, 64)
    assert found.peak("nobody") == (0.0, 64)


def test_ratios_are_to_the_best_setting_of_a_peer() -> None:
    found = figures(penstock=[600], Mosec_a=[300], Mosec_b=[500], raw_asyncio_sketch=[900])
    lines = {line: measured for line, measured, _ in found.ratios()}
    assert lines["requests/s / Mosec's best, 64 connections"] == pytest.approx(1.2)
    assert lines["CPU a request / raw sketch's, 64 connections (at most)"] == pytest.approx(1.5)
    assert lines["memory / bare torch with the network (at most)"] == pytest.approx(1.15)


def test_what_was_not_measured_is_left_out() -> None:
    found = figures(penstock=[600])
    assert [line for line, _, _ in found.ratios()] == [
        "memory / bare torch with the network (at most)"
    ]
    assert found.as_json()["absent"] == {}


def overloaded(goodput: float, grown: float) -> dict[str, Any]:
    return {
        "goodput_ratio": goodput,
        "goodput_ratio_by_cpu": goodput,
        "p99_milliseconds": 0.0,
        "deadline_milliseconds": 1000,
        "memory_grown": grown * 2**20,
    }


def test_a_goodput_of_nothing_is_a_line_that_misses_its_target() -> None:
    found = figures(penstock=[600])
    found.overload = overloaded(0.0, grown=17.0)
    lines = {line: (measured, target) for line, measured, target in found.ratios()}
    assert lines["3x overload: goodput / peak"] == (0.0, 0.75)
    assert lines["3x overload: goodput / peak, by CPU a right answer"] == (0.0, 0.75)
    assert lines["MiB grown under overload (at most)"] == (17.0, 16.0)


def test_a_server_that_answered_nothing_right_is_measured_and_its_peers_are_not_divided_by_it() -> (
    None
):
    found = figures(penstock=[0], Mosec=[500], LitServe=[0])
    lines = {line: measured for line, measured, _ in found.ratios()}
    assert lines["requests/s / Mosec's best, 64 connections"] == 0.0
    assert "requests/s / LitServe's, 64 connections" not in lines


def test_a_sketch_on_our_own_loop_is_told_beside_the_named_one_and_has_no_target() -> None:
    rounds = {"penstock": [600], "raw asyncio sketch": [900], "raw asyncio sketch, uvloop": [1200]}
    found = figures(**rounds)
    lines = {line: (round(measured, 3), target) for line, measured, target in found.ratios()}
    assert lines["CPU a request / raw sketch's, 64 connections (at most)"] == (1.5, 1.35)
    assert lines["CPU a request / raw sketch's on uvloop, 64 connections"] == (2.0, None)
    console = Console(record=True, width=200)
    console.print(show._ratios(found))
    assert "raw sketch's on uvloop, 64 connections" in console.export_text()
    assert found.as_json()["ratios"][1]["target"] is None


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
    lines = {one["line"]: one["measured"] for one in encoders.ratios(ENCODER, RAW, rates)}
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
    lines = {one["line"]: one["measured"] for one in encoders.ratios(EMBEDDER, RAW, rates)}
    assert lines == {
        "64 connections / the best peer": 2.0,
        "64 connections / length-sorted or packed raw torch": 0.9,
        "256 connections / length-sorted or packed raw torch": 0.9,
    }


def test_tritons_binary_is_asked_beside_ours_and_of_the_encoder_alone(tmp_path: Path) -> None:
    binaries = [one.name for one in contenders(ENCODER, tmp_path) if one.body == "binary"]
    assert binaries == ["penstock, binary", "Triton (PyTriton), no wait, binary"]
    assert not [one for one in contenders(EMBEDDER, tmp_path) if one.body == "binary"]


def test_the_encoders_chart_has_a_panel_for_each_subject(tmp_path: Path) -> None:
    found = {
        name: {"raw": RAW, "rates": {"penstock": {1: 40.0, 64: 80.0}, "Mosec, 1 ms": {64: 40.0}}}
        for name in ("encoder", "embedder")
    }
    assert chart.draw(found, tmp_path).stat().st_size > 10_000


def test_the_encoders_lines_keep_a_rate_of_nothing_and_the_growth_of_memory() -> None:
    raw = RAW | {"untouched": 0.0}
    lines = encoders.ratios(ENCODER, raw, {"penstock": {64: 0.0}, "peer": {64: 10.0}})
    assert {one["line"]: one["measured"] for one in lines} == {
        "JSON, 64 connections / raw torch, packed and prepacked": 0.0,
        "JSON, 64 connections / the best peer by JSON": 0.0,
    }
    beyond = {one["line"]: one for one in encoders.overload_lines(overloaded(0.0, grown=17.0))}
    assert beyond["3x overload: goodput / peak"]["measured"] == 0.0
    assert beyond["MiB grown under overload (at most)"]["target"] == 16.0
