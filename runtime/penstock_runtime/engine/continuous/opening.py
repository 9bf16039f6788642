"""`open_generation_engine`: loads the model, and starts a thread for its steps if they overlap with planning."""

from collections.abc import Callable
from dataclasses import dataclass
from typing import ClassVar, TypeVar

from penstock_api.pod_contract import LimitsUpdate
from penstock_runtime.engine.continuous.engine import GenerationEngine
from penstock_runtime.engine.continuous.grammar.client import GrammarClient
from penstock_runtime.engine.continuous.limits import GenerationInfo, GenerationLimits
from penstock_runtime.engine.continuous.loop import LoopPorts, serve
from penstock_runtime.engine.continuous.messages import Stepped, ToGeneration
from penstock_runtime.engine.continuous.scheduler.scheduler import TokenScheduler
from penstock_runtime.engine.continuous.steps.interfaces import StepExecutor
from penstock_runtime.engine.continuous.steps.runner import (
    InlineRunner,
    Runner,
    StepThread,
    ThreadRunner,
)
from penstock_runtime.engine.dynamic.loop import HeartbeatWriter, Inbox

S = TypeVar("S", bound=StepExecutor)


@dataclass(frozen=True, slots=True)
class OpenedGenerationEngine:
    """A generation engine with a loaded model; an `engine.link.base.OpenedEngine`."""

    engine: GenerationEngine
    runner: Runner
    info: GenerationInfo
    receives_in_thread: ClassVar[bool] = True

    def first_report(self) -> Stepped:
        """Return the report that precedes the first request."""
        return Stepped((), None, self.engine.report())

    def serve(
        self,
        inbox: Inbox[ToGeneration],
        post: Callable[[Stepped], None],
        heartbeat: HeartbeatWriter,
        clock: Callable[[], float],
    ) -> None:
        """Serve until the inbox is closed."""
        serve(self.engine, self.runner, inbox, LoopPorts(post, heartbeat, clock))


def open_generation_engine(
    load: Callable[[], StepExecutor],
    limits: LimitsUpdate,
    depth: int,
    clock: Callable[[], float],  # noqa: ARG001 - the engine takes the time from its loop
) -> OpenedGenerationEngine:
    """Load the model in the thread that will run its steps: a step belongs to the thread that opened it.

    Raises:
        ModelLoadFailed: as `load`.
    """
    step, runner = open_runner(load, depth)
    scheduler = TokenScheduler(step.info, GenerationLimits.from_update(limits))
    engine = GenerationEngine(step.info, scheduler, GrammarClient(step.info.vocabulary))
    return OpenedGenerationEngine(engine, runner, step.info)


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
