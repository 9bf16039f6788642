"""Outcomes of the fault bench: lost requests, wrong-way moves, and the failures of a line."""

from collections.abc import Iterator
from contextlib import contextmanager

import pytest

from tests.bench.faults import show
from tests.bench.faults.fault import Fault, Right
from tests.bench.faults.outcome import (
    ServedLoad,
    Suffered,
    Valves,
    as_json,
    failures,
    wrong_way_moves,
)
from tests.bench.faults.stage import FaultStage
from tests.bench.faults.table import all_faults
from tests.support.load.report import Report


@contextmanager
def harmless(stage: FaultStage) -> Iterator[None]:
    yield


def valves(*standing: tuple[int, int]) -> list[Valves]:
    return [Valves(float(second), *values) for second, values in enumerate(standing)]


def counted(*, lost: int = 0, wrong: int = 0, completed: int = 90, refused: int = 0) -> ServedLoad:
    return ServedLoad(
        completed + lost + wrong + refused, completed, refused, lost, lost // 2, wrong, 400.0
    )


def suffered(
    served: ServedLoad,
    *standing: tuple[int, int],
    takes_a_pod: bool = False,
    right: Right = Right.NOTHING,
    recovered: float | None = 2.0,
    restarts: int = 0,
) -> Suffered:
    fault = Fault("it", harmless, 5.0, right, takes_a_pod)
    return Suffered(fault, served, tuple(valves(*standing or ((3, 4),))), recovered, restarts)


@pytest.mark.parametrize(
    ("standing", "right", "wrong"),
    [
        (((3, 4),), Right.NOTHING, 0),
        (((3, 4), (2, 4), (3, 4)), Right.NOTHING, 1),
        (((3, 4), (2, 4), (1, 4), (3, 4)), Right.MORE, 2),
        (((3, 4), (4, 4), (3, 4)), Right.MORE, 0),
        (((3, 4), (4, 4), (3, 4)), Right.NOTHING, 1),
        (((3, 6), (3, 7), (3, 6)), Right.NOTHING, 0),
        (((3, 6), (3, 4)), Right.MORE, 1),
        (((3, 6), (2, 4)), Right.MORE, 2),
    ],
)
def test_a_move_away_from_what_a_steady_load_needs_is_the_wrong_way(
    standing: tuple[tuple[int, int], ...], right: Right, wrong: int
) -> None:
    assert wrong_way_moves(valves(*standing), right) == wrong


def test_requests_may_be_lost_inside_a_pod_that_was_taken_and_nowhere_else() -> None:
    assert failures(suffered(counted(lost=4), takes_a_pod=True)) == []
    assert failures(suffered(counted(lost=4))) == ["4 lost, though no pod was taken"]


def test_back_pressure_is_no_failure() -> None:
    assert failures(suffered(counted(refused=30))) == []


@pytest.mark.parametrize(
    ("result", "failure"),
    [
        (suffered(counted(completed=0)), "nothing was served"),
        (suffered(counted(wrong=1)), "1 answered wrongly"),
        (suffered(counted(), (3, 4), (2, 4)), "1 moves the wrong way"),
        (suffered(counted(), recovered=None), "not recovered: "),
        (suffered(counted(), restarts=2), "the operator ended 2 times"),
    ],
)
def test_each_violation_is_reported(result: Suffered, failure: str) -> None:
    assert failures(result) == [failure]


def test_a_line_of_the_table_contains_requests_lost_before_they_were_sent() -> None:
    result = suffered(counted(lost=4, refused=3), takes_a_pod=True)
    assert show.cells(result) == ("it", "97", "4", "2", "3", "0", "2.0", "400", "")
    assert as_json(result)["unreached"] == 2


def test_a_fault_counts_the_load_between_its_first_and_last_report() -> None:
    reports = [
        Report(1.0, 10, 10, 8, 0, 0, 0, 2, 100.0, 150.0),
        Report(2.0, 10, 20, 16, 1, 1, 0, 2, 100.0, 900.0),
        Report(3.0, 10, 30, 24, 1, 3, 0, 2, None, None, unreached=1),
    ]
    assert ServedLoad.between(reports) == ServedLoad(20, 16, 1, 3, 1, 0, 900.0)


def test_every_fault_of_the_table_has_a_unique_name() -> None:
    names = [fault.name for fault in all_faults()]
    assert len(set(names)) == len(names) >= 13
