"""Targets of the generation bench, each with its measured figure."""

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
class PeerTarget:
    """Target rates relative to a peer."""

    peer: str
    min_ratios: dict[str, float]
    """Minimum ratio by model."""
    concurrency: tuple[int, ...]


PEERS = (
    PeerTarget("transformers_batch", {"llama-7M": 2.0, "llama-61M": 2.0}, (8, 32)),
    PeerTarget("transformers_generate", {"llama-7M": 1.0, "llama-61M": 1.0}, (1,)),
    PeerTarget("vllm_cpu", {"llama-7M": 1.0, "llama-61M": 0.9}, CONCURRENCY),
    PeerTarget("vllm_cpu_eager", {"llama-7M": 1.0, "llama-61M": 0.9}, CONCURRENCY),
    PeerTarget("openvino_genai", {"llama-7M": 0.9, "llama-61M": 0.95}, CONCURRENCY),
)


@dataclass(frozen=True)
class TargetLine:
    """A measured figure, or None if its peer is absent, and its bound."""

    name: str
    measured: float | None
    bound: float | None
    """None for a line without a target, which explains the line above."""
    at_most: bool = False
    by_cpu_time: float | None = None
    """The same ratio by CPU time per token, which is robust on a busy machine."""

    @property
    def met(self) -> bool | None:
        """Return whether the target is met, or None without a measurement or target."""
        if self.measured is None or self.bound is None:
            return None
        return self.measured <= self.bound if self.at_most else self.measured >= self.bound


def targets(
    outcomes: Sequence[PeerOutcome],
    times: Sequence[PlanningTime],
    http: Sequence[dict[str, object]],
) -> list[TargetLine]:
    """Return all lines of the run."""
    return [*_planning(times), *_idle(outcomes), *_ratios(outcomes), *_http(http)]


def _planning(times: Sequence[PlanningTime]) -> Iterator[TargetLine]:
    for planning_time in times:
        name = f"planning a step by {planning_time.discipline}, microseconds"
        yield TargetLine(name, planning_time.plan_median, PLANNING_MICROSECONDS, at_most=True)


def _idle(outcomes: Sequence[PeerOutcome]) -> Iterator[TargetLine]:
    """Yield the share of time in which the device idles between steps, with 32 decoding rows."""
    for outcome in outcomes:
        figure = outcome.figure("decode", STREAMS) if outcome.peer in {OWN, ON_TORCH} else None
        if figure is not None:
            name = f"{outcome.peer} {outcome.model} {outcome.dtype}: idle between steps, decode {STREAMS}"
            yield TargetLine(name, figure.idle_share, IDLE_SHARE, at_most=True)


def _ratios(outcomes: Sequence[PeerOutcome]) -> Iterator[TargetLine]:
    by_name = {(outcome.peer, outcome.model, outcome.dtype): outcome for outcome in outcomes}
    for (name, model, dtype), ours in by_name.items():
        for peer in PEERS if name == OWN else ():
            theirs = by_name.get((peer.peer, model, dtype))
            if theirs is None or model not in peer.min_ratios:
                continue
            for line in LINES:
                for concurrency in peer.concurrency:
                    yield _ratio(ours, theirs, line, concurrency, peer.min_ratios[model])


def _ratio(
    ours: PeerOutcome, theirs: PeerOutcome, line: str, concurrency: int, min_ratio: float
) -> TargetLine:
    name = f"{ours.peer} / {theirs.peer}, {ours.model} {ours.dtype}, {line} {concurrency}"
    own, other = ours.figure(line, concurrency), theirs.figure(line, concurrency)
    if own is None or other is None:
        return TargetLine(name, None, min_ratio)
    return TargetLine(
        name,
        own.tokens_per_second / other.tokens_per_second,
        min_ratio,
        by_cpu_time=other.cpu_microseconds_a_token / own.cpu_microseconds_a_token,
    )


def _http(http: Sequence[dict[str, object]]) -> Iterator[TargetLine]:
    for stream in http:
        name = f"{stream['model']}: HTTP at {stream['streams']} streams of in-process, {stream['placement']}"
        by_cpu = _number(stream, "of_in_process_with_a_core_each")
        yield TargetLine(name, _number(stream, "of_in_process"), HTTP_SHARE, by_cpu_time=by_cpu)
        with_neighbor = _number(stream, "of_in_process_beside_a_neighbor")
        if with_neighbor is not None:
            yield TargetLine(f"{name}, of in-process with a busy neighbor", with_neighbor, None)


def _number(record: dict[str, object], name: str) -> float | None:
    value = record.get(name)
    return value if isinstance(value, float) else None
