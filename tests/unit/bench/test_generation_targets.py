"""The generation bench judges each line by its bound, and an absent peer never counts as met."""

import pytest
from rich.console import Console

from penstock_api.pod_contract import Discipline
from tests.bench.generation import neighbor, show
from tests.bench.generation.neighbor import Neighbor
from tests.bench.generation.planning import PlanningTime
from tests.bench.generation.runs import PeerFigure, PeerOutcome
from tests.bench.generation.targets import TargetLine, targets


def outcome(
    peer: str, rate: float, idle: float | None = 0.01, model: str = "llama-61M"
) -> PeerOutcome:
    figures = [
        PeerFigure(line, n, rate, idle, (1.0,), 1e6 / rate)
        for line in ("prefill", "decode", "mixed")
        for n in (1, 8, 32)
    ]
    return PeerOutcome(peer, model, "float32", figures=figures)


def named(lines: list[TargetLine], part: str) -> list[TargetLine]:
    return [line for line in lines if part in line.name]


@pytest.mark.parametrize(("rate", "met"), [(96.0, True), (94.0, False)])
def test_a_peer_is_judged_on_every_line_by_the_factor_of_the_model(rate: float, met: bool) -> None:
    ours, theirs = outcome("penstock", rate), outcome("openvino_genai", 100.0)
    lines = named(targets([ours, theirs], [], []), "openvino_genai")
    assert len(lines) == 9
    assert {line.met for line in lines} == {met}
    assert lines[0].measured == pytest.approx(rate / 100)
    assert lines[0].by_cpu_time == pytest.approx(rate / 100)


def test_generate_batch_is_judged_where_it_batches_and_generate_alone() -> None:
    peers = [outcome("transformers_batch", 40.0), outcome("transformers_generate", 40.0)]
    lines = targets([outcome("penstock", 90.0), *peers], [], [])
    assert len(named(lines, "transformers_batch")) == 6
    assert [line.name.rpartition(" ")[2] for line in named(lines, "transformers_generate")] == [
        "1",
        "1",
        "1",
    ]
    assert all(line.met for line in named(lines, "transformers"))


def test_a_peer_without_figures_is_not_measured() -> None:
    absent = PeerOutcome("vllm_cpu", "llama-61M", "float32", absent="not installed")
    assert {
        line.met for line in named(targets([outcome("penstock", 9.0), absent], [], []), "vllm")
    } == {None}


def test_another_model_is_no_peer() -> None:
    other = outcome("openvino_genai", 1.0, model="llama-7M")
    lines = targets([outcome("penstock", 9.0), other], [], [])
    assert not named(lines, "openvino_genai")


def test_planning_idling_and_http_have_bounds() -> None:
    times = [PlanningTime(discipline, 301.0, 400.0, 1.0) for discipline in Discipline]
    http = [{"model": "llama-7M", "streams": 32, "placement": "Thread", "of_in_process": 0.96}]
    lines = targets([outcome("penstock", 9.0, idle=0.06)], times, http)
    assert {line.met for line in named(lines, "planning")} == {False}
    assert [line.met for line in named(lines, "idle")] == [False]
    assert [line.met for line in named(lines, "HTTP")] == [True]


def test_a_server_that_did_not_start_is_not_measured() -> None:
    http: list[dict[str, object]] = [
        {"model": "llama-7M", "streams": 32, "placement": "Thread", "absent": "it crashed"}
    ]
    assert [line.met for line in targets([], [], http)] == [None]


def test_a_neighbors_cost_is_the_median_of_pairs_and_there_is_none_on_one_core() -> None:
    pairs = [(100.0, 90.0), (200.0, 170.0), (50.0, 44.0)]
    assert neighbor.of_pairs("llama-7M", pairs) == Neighbor("llama-7M", 100.0, 90.0, 0.88)
    assert neighbor.of_pairs("llama-7M", []) is None
    assert neighbor.seats(frozenset({1, 2, 5})) == (frozenset({1, 2}), 5)
    assert neighbor.seats(frozenset({3})) is None


def test_a_neighbors_cost_explains_the_http_line_and_changes_no_target() -> None:
    busy = Neighbor("llama-7M", 100.0, 88.0, 0.88)
    http_line = {"model": "llama-7M", "streams": 32, "placement": "Process", "of_in_process": 0.88}
    assert neighbor.explained(0.88, None) == neighbor.explained(None, busy) == {}
    lines = targets([], [], [http_line | neighbor.explained(0.88, busy)])
    assert [(line.measured, line.bound, line.met) for line in lines] == [
        (0.88, 0.95, False),
        (1.0, None, None),
    ]
    console = Console(record=True, width=200)
    console.print(show.verdicts(lines))
    assert "0 met, 1 missed, 0 not measured" in console.export_text()
    assert "88 next to a busy neighbor" in show.neighbor("llama-7M", busy)
    assert "no other core" in show.neighbor("llama-7M", None)
