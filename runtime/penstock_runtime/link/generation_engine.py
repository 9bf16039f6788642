"""A generation engine made ready, in whatever thread or process it will live in."""

from collections.abc import Callable
from concurrent.futures import ThreadPoolExecutor
from dataclasses import dataclass

from penstock_runtime.batching.tokens.scheduler import TokenScheduler
from penstock_runtime.generation.engine import GenerationEngine
from penstock_runtime.generation.grammar import GrammarSource
from penstock_runtime.generation.limits import GenerationInfo, GenerationLimits
from penstock_runtime.generation.loop import Runner
from penstock_runtime.generation.runner import InlineRunner, ThreadRunner
from penstock_runtime.generation.stepping import Step


@dataclass(frozen=True, slots=True)
class OpenedEngine:
    """What `generation.loop.serve` needs."""

    engine: GenerationEngine
    runner: Runner
    info: GenerationInfo


def open_engine(
    load: Callable[[], Step],
    limits: GenerationLimits,
    grammars: Callable[[GenerationInfo], GrammarSource],
    depth: int,
) -> OpenedEngine:
    """Load in the thread that will run the steps, for a step belongs to the thread that opened it.

    Raises:
        ModelLoadFailed: as `load`.
    """
    runner: Runner
    if depth:
        thread = ThreadPoolExecutor(1, thread_name_prefix="penstock-step")
        step = thread.submit(load).result()
        runner = ThreadRunner(step, thread)
    else:
        step = load()
        runner = InlineRunner(step)
    scheduler = TokenScheduler(step.info, limits)
    engine = GenerationEngine(step.info, scheduler, grammars(step.info))
    return OpenedEngine(engine, runner, step.info)
