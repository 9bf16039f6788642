"""What the issue asks of each figure, beside what this run measured: every line of the bench can be missed."""

from collections.abc import Iterator, Sequence
from dataclasses import dataclass

from tests.bench.generation.planning import PlanningTime
from tests.bench.generation.runs import PeerOutcome
from tests.bench.generation.workload import CONCURRENCY, LINES

OWN, ON_TORCH = "penstock", "penstock_torch"
PLANNING_MICROSECONDS = 300.0
IDLE_SHARE = 0.05
HTTP_SHARE = 0.95
STREAMS = 32


@dataclass(frozen=True)
class Peer:
    """How many times a peer's tokens a second are asked for."""

    peer: str
    least: dict[str, float]
    """By model."""
    concurrency: tuple[int, ...]


PEERS = (
    Peer("transformers_batch", {"llama-7M": 2.0, "llama-61M": 2.0}, (8, 32)),
    Peer("transformers_generate", {"llama-7M": 1.0, "llama-61M": 1.0}, (1,)),
    Peer("vllm_cpu", {"llama-7M": 1.0, "llama-61M": 0.9}, CONCURRENCY),
    Peer("vllm_cpu_eager", {"llama-7M": 1.0, "llama-61M": 0.9}, CONCURRENCY),
    Peer("openvino_genai", {"llama-7M": 0.9, "llama-61M": 0.95}, CONCURRENCY),
)


@dataclass(frozen=True)
class TargetLine:
    """One line: a figure that was measured, or None where its peer is absent, and the bound that it must keep."""

    name: str
    measured: float | None
    bound: float | None
    """None: it explains the line above it, and nothing is asked of it."""
    at_most: bool = False
    by_cpu_time: float | None = None
    """The same ratio by CPU time a token: what a busy machine says more surely."""

    @property
    def met(self) -> bool | None:
        """Return whether it is met; None: not measured, or nothing is asked."""
        if self.measured is None or self.bound is None:
            return None
        return self.measured <= self.bound if self.at_most else self.measured >= self.bound


def targets(
    outcomes: Sequence[PeerOutcome],
    times: Sequence[PlanningTime],
    http: Sequence[dict[str, object]],
) -> list[TargetLine]:
    """Return every line that the run could show."""
    return [*_planning(times), *_idle(outcomes), *_beside(outcomes), *_http(http)]


def _planning(times: Sequence[PlanningTime]) -> Iterator[TargetLine]:
    for one in times:
        name = f"planning a step by {one.discipline}, microseconds"
        yield TargetLine(name, one.plan_median, PLANNING_MICROSECONDS, at_most=True)


def _idle(outcomes: Sequence[PeerOutcome]) -> Iterator[TargetLine]:
    """A device with room for more does not idle for want of planning: at most so much where 32 rows decode."""
    for one in outcomes:
        figure = one.figure("decode", STREAMS) if one.peer in {OWN, ON_TORCH} else None
        if figure is not None:
            name = f"{one.peer} {one.model} {one.dtype}: idle between steps, decode {STREAMS}"
            yield TargetLine(name, figure.idle_share, IDLE_SHARE, at_most=True)


def _beside(outcomes: Sequence[PeerOutcome]) -> Iterator[TargetLine]:
    by_name = {(one.peer, one.model, one.dtype): one for one in outcomes}
    for (name, model, dtype), ours in by_name.items():
        for asked in PEERS if name == OWN else ():
            theirs = by_name.get((asked.peer, model, dtype))
            if theirs is None or model not in asked.least:
                continue
            for line in LINES:
                for concurrency in asked.concurrency:
                    yield _ratio(ours, theirs, line, concurrency, asked.least[model])


def _ratio(
    ours: PeerOutcome, theirs: PeerOutcome, line: str, concurrency: int, least: float
) -> TargetLine:
    name = f"{ours.peer} / {theirs.peer}, {ours.model} {ours.dtype}, {line} {concurrency}"
    own, other = ours.figure(line, concurrency), theirs.figure(line, concurrency)
    if own is None or other is None:
        return TargetLine(name, None, least)
    return TargetLine(
        name,
        own.tokens_per_second / other.tokens_per_second,
        least,
        by_cpu_time=other.cpu_microseconds_a_token / own.cpu_microseconds_a_token,
    )


def _http(http: Sequence[dict[str, object]]) -> Iterator[TargetLine]:
    for one in http:
        name = f"{one['model']}: HTTP at {one['streams']} streams of in-process, {one['placement']}"
        by_cpu = _number(one, "of_in_process_with_a_core_each")
        yield TargetLine(name, _number(one, "of_in_process"), HTTP_SHARE, by_cpu_time=by_cpu)
        beside = _number(one, "of_in_process_beside_a_neighbour")
        if beside is not None:
            yield TargetLine(f"{name}, of in-process beside a busy neighbour", beside, None)


def _number(told: dict[str, object], name: str) -> float | None:
    found = told.get(name)
    return found if isinstance(found, float) else None
