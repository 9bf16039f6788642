"""The bench over HTTP tells medians and ratios of what it measured, and leaves out what it did not."""

from typing import Any

import pytest

from tests.bench.http.figures import Figures


def seen(right: int, cpu_seconds: float = 1.0, memory: float = 115.0) -> dict[str, Any]:
    return {
        "right": right,
        "seconds": 2.0,
        "cpu_seconds": cpu_seconds,
        "memory": memory,
        "p99": 5.0,
    }


def figures(**rights: list[int]) -> Figures:
    found = Figures({"bare_torch_bytes": 100.0})
    for name, rounds in rights.items():
        for right in rounds:
            found.note(name.replace("_", " "), 64, seen(right))
    return found


def test_a_rate_is_the_median_of_its_rounds() -> None:
    assert figures(penstock=[100, 900, 200]).rate("penstock", 64) == 100.0


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
