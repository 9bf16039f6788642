"""Runs an engine to the end of what it holds, without threads or clocks."""

from collections import defaultdict

from penstock_api.pod_contract import LimitsUpdate
from penstock_runtime.engine.continuous.engine import GenerationEngine
from penstock_runtime.engine.continuous.grammar.base import GrammarSource
from penstock_runtime.engine.continuous.limits import GenerationLimits
from penstock_runtime.engine.continuous.loop import Loop, LoopPorts
from penstock_runtime.engine.continuous.messages import (
    ChoiceFinished,
    Ended,
    Generate,
    GenerationEnd,
    PromptScored,
    Stepped,
    TokensEmitted,
)
from penstock_runtime.engine.continuous.prompt_scores import PromptScores
from penstock_runtime.engine.continuous.sampling_params import SamplingParams
from penstock_runtime.engine.continuous.steps.interfaces import Scheduler, StepExecutor
from penstock_runtime.engine.continuous.steps.runner import InlineRunner, Runner


class NoPulse:
    def begin(self, predicted_seconds: float) -> None: ...
    def tick(self) -> None: ...
    def end(self) -> None: ...
    def tick_idle(self) -> None: ...


class Driver:
    """An engine whose clock ticks once a turn."""

    def __init__(
        self,
        step: StepExecutor,
        scheduler: Scheduler,
        runner: Runner | None = None,
        grammars: GrammarSource | None = None,
    ) -> None:
        self.now = 0.0
        self.engine = GenerationEngine(step.info, scheduler, grammars)
        self.posted: list[Stepped] = []
        self.tokens: dict[tuple[str, int], list[int]] = defaultdict(list)
        self.finished: dict[tuple[str, int], ChoiceFinished] = {}
        self.ends: dict[str, GenerationEnd] = {}
        self.scores: dict[str, PromptScores] = {}
        runner = runner or InlineRunner(step)
        self.loop = Loop(self.engine, runner, LoopPorts(self._post, NoPulse(), lambda: self.now))

    def _post(self, stepped: Stepped) -> None:
        self.posted.append(stepped)
        for event in stepped.events:
            match event:
                case PromptScored():
                    assert event.id not in self.scores
                    assert (event.id, 0) not in self.tokens, "scores come before the first token"
                    self.scores[event.id] = event.logprobs
                case TokensEmitted():
                    self.tokens[event.id, event.choice].extend(event.tokens)
                case ChoiceFinished():
                    self.finished[event.id, event.choice] = event
                case Ended():
                    assert event.id not in self.ends
                    self.ends[event.id] = event.end

    def turn(self) -> None:
        self.now += 1.0
        self.loop.turn()

    def run(self, turns: int = 1000) -> None:
        """Turn until nothing is held."""
        for _ in range(turns):
            self.turn()
            if not self.engine._ledger.pending() and not self.loop.in_flight:
                return
        raise AssertionError(f"still held after {turns} turns: {self.engine._ledger.pending()}")


def generate_request(name: str, prompt: list[int], tokens: int = 8, **more: object) -> Generate:
    """A greedy request unless `more` says otherwise."""
    params = more.pop("params", None) or SamplingParams(max_tokens=tokens, temperature=0.0)
    return Generate(id=name, prompt=tuple(prompt), params=params, arrived=0.0, **more)  # type: ignore[arg-type]


def limits_update(limits: GenerationLimits) -> LimitsUpdate:
    """Return the settings update that `limits` come from."""
    return LimitsUpdate(
        generation=limits.generation,
        max_batch_size=limits.max_batch_size,
        max_batched_tokens=limits.max_batched_tokens,
        max_queue_depth=limits.max_queue_depth,
        max_queue_delay_milliseconds=0,
        discipline=limits.discipline,
        preemption=limits.preemption,
        drain=limits.lowering,
    )
