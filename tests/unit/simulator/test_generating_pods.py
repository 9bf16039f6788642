"""Runs of pods that generate text: every request ends once, latencies are those of the steps, and the law scales them."""

from dataclasses import replace
from pathlib import Path

import numpy as np
import pytest

from penstock_operator.decide.scaling.capacity_at_objective.law import CapacityAtObjective
from penstock_simulator.__main__ import main
from penstock_simulator.arrivals import scaled_lengths
from penstock_simulator.baselines.fixed import Planned, fixed
from penstock_simulator.clairvoyant import fluid_gpu_hours
from penstock_simulator.outcome import answers, on_time, outcome
from penstock_simulator.pods.routing import Times
from penstock_simulator.pods.step_time import Generation, Lengths, StepModel, by_arrival, distinct
from penstock_simulator.scenario import ClientBehavior, ImpossibleScenario, Routing, Scenario
from penstock_simulator.simulation import simulate
from penstock_simulator.traces import read_trace
from tests.unit.simulator.scenarios import SETTINGS, world

MODEL = StepModel(sigma=0.0, tail_share=0.0, overhead=0.0)
TEXT = replace(
    SETTINGS,
    objective_milliseconds=None,
    first_token_milliseconds=2000,
    output_token_milliseconds=50,
    size_max=64,
)


def text(arrivals: Times, lengths: Lengths, model: StepModel = MODEL, **more: object) -> Scenario:
    generation = Generation(model, by_arrival(arrivals, lengths))
    return world(settings=TEXT, generation=generation, **{"routing": Routing.LEAST_REQUEST} | more)  # type: ignore[arg-type]


def traffic(rate: float, seconds: float, seed: int = 1) -> tuple[Times, Lengths]:
    random = np.random.default_rng(seed)
    times = distinct(np.sort(random.uniform(0, seconds, int(rate * seconds))))
    tokens = random.exponential((1000, 200), size=(len(times), 2))
    return times, np.maximum(tokens.round(), 1).astype(np.int64)


def test_a_request_alone_takes_its_chunks_and_then_its_steps() -> None:
    times, lengths = np.array([1.0, 100.0]), np.array([[1200, 101], [400, 1]])
    run = simulate(text(times, lengths), fixed(1), times)
    arrived, latency, first, each = (column.tolist() for column in answers(run))
    chunks = [(512, 512), (512, 1024), (176, 1200)]
    assert arrived == times.tolist()
    assert first[0] == pytest.approx(sum(MODEL.seconds(feed, 0, read) for feed, read in chunks))
    assert each[0] == pytest.approx(MODEL.seconds(0, 1, 1200 + 50.5))
    assert latency[0] == pytest.approx(first[0] + 100 * each[0])
    assert (first[1], each[1]) == (pytest.approx(MODEL.seconds(400, 0, 400)), 0.0)


@pytest.mark.parametrize("routing", [Routing.CONNECTION, Routing.POWER_OF_TWO, Routing.LEAST_REQUEST])  # fmt: skip
def test_every_request_ends_once_across_scaling_and_drains(routing: Routing) -> None:
    times, lengths = traffic(30.0, 200.0)
    counts = Planned("waves", (4, 9, 3, 7, 4), 40.0, 64)
    run = simulate(text(times, lengths, routing=routing, start=4), counts, times)
    arrived = answers(run)[0]
    assert sorted(arrived.tolist() + run.router.failed) == pytest.approx(times.tolist())
    ended = run.fleet.total(lambda pod: pod.settled())
    assert ended == len(arrived) == len(times) - len(run.router.failed)
    generated = sum(sample.generated_tokens or 0 for pod in run.fleet.all if (sample := pod.generation()))  # fmt: skip
    assert generated == lengths[:, 1].sum()


def test_a_small_cache_preempts_and_serves_all_the_same() -> None:
    times, lengths = traffic(6.0, 100.0)
    small = replace(MODEL, cache_tokens=20_000)
    run = simulate(text(times, lengths, small), fixed(1), times)
    whole = simulate(text(times, lengths), fixed(1), times)
    assert len(answers(run)[0]) == len(times)
    tight, roomy = outcome(run).generation, outcome(whole).generation
    assert tight
    assert roomy
    assert roomy.preemptions == 0 < tight.preemptions
    assert tight.first_token_p99_seconds > roomy.first_token_p99_seconds


def test_who_waits_too_long_or_finds_a_full_queue_is_late() -> None:
    times, lengths = traffic(40.0, 60.0)
    impatient = ClientBehavior(timeout_seconds=5.0)
    run = simulate(text(times, lengths, clients=impatient), fixed(1), times)
    full = simulate(text(times, lengths, max_queue_depth=20), fixed(1), times)
    summary = outcome(run)
    assert run.fleet.total(lambda pod: pod.expired) == summary.never_completed > 0
    assert full.fleet.total(lambda pod: len(pod.rejected)) == outcome(full).never_completed > 0
    assert summary.attainment < len(answers(run)[0]) / len(times) < 1


def test_the_objective_that_is_missed_most_often_counts() -> None:
    times, lengths = traffic(13.0, 100.0)
    run = simulate(text(times, lengths), fixed(1), times)
    summary = outcome(run)
    assert summary.generation
    shares = summary.generation.first_token_attainment, summary.generation.output_token_attainment
    assert summary.attainment == pytest.approx(min(shares))
    assert min(shares) < max(shares)
    assert len(on_time(run)) / len(times) <= min(shares)


def test_without_an_objective_only_completed_requests_are_on_time() -> None:
    times, lengths = traffic(40.0, 60.0)
    scenario = text(times, lengths, max_queue_depth=20)
    free = replace(TEXT, first_token_milliseconds=None, output_token_milliseconds=None)
    summary = outcome(simulate(replace(scenario, settings=free), fixed(1), times))
    assert summary.never_completed > 0
    assert summary.attainment == pytest.approx(1 - summary.never_completed / len(times))


def test_the_time_per_output_token_counts_for_answers_of_several_tokens() -> None:
    times, lengths = np.array([1.0, 100.0, 200.0]), np.array([[400, 1], [400, 101], [400, 1]])
    strict = replace(TEXT, output_token_milliseconds=1)
    scenario = replace(text(times, lengths), settings=strict)
    summary = outcome(simulate(scenario, fixed(1), times))
    assert summary.generation
    assert summary.generation.output_token_attainment == summary.attainment == 0
    step = MODEL.seconds(0, 1, 400 + 50.5)
    assert summary.generation.output_token_p99_seconds == pytest.approx(step)


def test_the_law_scales_them_and_no_fixed_count_beats_the_fluid_bound() -> None:
    times, lengths = traffic(24.0, 500.0)
    scenario = text(times, lengths, warm_up_seconds=120.0, start=8)
    law = outcome(simulate(scenario, CapacityAtObjective(), times))
    assert law.attains
    assert law.mean_replicas < 7
    few = outcome(simulate(replace(scenario, start_replicas=2), fixed(2), times))
    bound = fluid_gpu_hours(scenario, len(times))
    assert bound < few.gpu_hours < law.gpu_hours
    assert few.attainment < law.attainment


def test_batch_work_and_a_central_queue_are_impossible() -> None:
    times, lengths = traffic(1.0, 20.0)
    with pytest.raises(ImpossibleScenario, match="least-request"):
        text(times, lengths, routing=Routing.CENTRAL_QUEUE)


def test_copies_have_the_tokens_of_neighbors_and_times_of_their_own() -> None:
    times, lengths = traffic(5.0, 400.0)
    lengths[1000:] *= 100
    more, tokens = scaled_lengths(times, lengths, 9_000.0, seed=1)
    assert (np.diff(more) > 0).all()
    assert len(tokens) == len(more) == pytest.approx(9_000, rel=0.05)
    early, late = tokens[: len(more) // 3], tokens[-len(more) // 3 :]
    assert early[:, 0].mean() == pytest.approx(1000, rel=0.15)
    assert late[:, 0].mean() == pytest.approx(100_000, rel=0.15)


AZURE = "TIMESTAMP,ContextTokens,GeneratedTokens\n2023-11-16 18:17:04.0000000,480,10\n2023-11-16 18:17:03.0000000,318,0\n"


def test_tokens_are_read_in_order_of_arrival(tmp_path: Path) -> None:
    azure, mooncake = tmp_path / "azure.csv", tmp_path / "m.jsonl"
    azure.write_text(AZURE, encoding="utf-8")
    mooncake.write_text(
        '{"timestamp": 2500, "input_length": 7, "output_length": 2}\n{"timestamp": 500, "input_length": 9, "output_length": 3}\n',
        encoding="utf-8",
    )
    for path, expected in ((azure, [[318, 1], [480, 10]]), (mooncake, [[9, 3], [7, 2]])):
        lengths = read_trace(path).lengths
        assert lengths is not None
        assert lengths.tolist() == expected


def test_the_command_line_runs_a_trace_with_tokens(
    tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    trace, plain = tmp_path / "trace.csv", tmp_path / "plain.txt"
    stamps = [f"2023-11-16 18:17:{second:02}.0000000,{500 + second},20" for second in range(60)]
    trace.write_text("TIMESTAMP,ContextTokens,GeneratedTokens\n" + "\n".join(stamps) + "\n")
    plain.write_text("1\n2\n")
    options = ["--steps", "8,8.3,0.05,0.27", "--first-token-ms", "2000", "--output-token-ms", "50"]
    files = ["--json", str(tmp_path / "run.json"), "--plot", str(tmp_path / "run.png")]
    assert main(["simulate", "--trace", str(trace), *options, *files, "--start", "12"]) == 0
    assert "first token on time" in capsys.readouterr().out
    assert main(["simulate", "--trace", str(plain), *options, *files]) == 2
    assert "expected tokens" in capsys.readouterr().out
