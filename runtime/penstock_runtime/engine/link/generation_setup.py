"""A generation engine made ready, in whatever thread or process it will live in."""

from collections.abc import Callable
from dataclasses import dataclass
from typing import TypeVar

from penstock_runtime.engine.continuous.engine import GenerationEngine
from penstock_runtime.engine.continuous.grammar.client import GrammarClient
from penstock_runtime.engine.continuous.interfaces import StepExecutor
from penstock_runtime.engine.continuous.limits import GenerationInfo, GenerationLimits
from penstock_runtime.engine.continuous.loop import Runner
from penstock_runtime.engine.continuous.runner import InlineRunner, StepThread, ThreadRunner
from penstock_runtime.engine.continuous.scheduler.scheduler import TokenScheduler

S = TypeVar("S", bound=StepExecutor)


@dataclass(frozen=True, slots=True)
class OpenedEngine:
    """What `engine.continuous.loop.serve` needs."""

    engine: GenerationEngine
    runner: Runner
    info: GenerationInfo


def open_engine(
    load: Callable[[], StepExecutor], limits: GenerationLimits, depth: int
) -> OpenedEngine:
    """Load in the thread that will run the steps, for a step belongs to the thread that opened it.

    Raises:
        ModelLoadFailed: as `load`.
    """
    step, runner = open_runner(load, depth)
    scheduler = TokenScheduler(step.info, limits)
    grammars = GrammarClient(step.info.vocabulary)
    engine = GenerationEngine(step.info, scheduler, grammars)
    return OpenedEngine(engine, runner, step.info)


def open_runner(load: Callable[[], S], depth: int) -> tuple[S, Runner]:
    """Return what `load` opened, and the runner of that depth that runs it.

    Raises:
        ModelLoadFailed: as `load`.
    """
    if not depth:
        step = load()
        return step, InlineRunner(step)
    thread = StepThread()
    try:
        step = thread.submit(load).result()
    except BaseException:
        thread.close()
        raise
    return step, ThreadRunner(step, thread)
