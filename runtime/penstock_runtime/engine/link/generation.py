"""Links to a generation engine, in a thread or a process."""

import time
from collections.abc import Callable
from functools import partial

from penstock_api.pod_contract import LimitsUpdate
from penstock_runtime.engine.continuous.limits import GenerationInfo
from penstock_runtime.engine.continuous.messages import Stepped, ToGeneration
from penstock_runtime.engine.continuous.opening import open_generation_engine
from penstock_runtime.engine.continuous.steps.interfaces import StepExecutor
from penstock_runtime.engine.link.base import EngineLink
from penstock_runtime.engine.link.process.link import ProcessLink
from penstock_runtime.engine.link.thread.link import ThreadHost, ThreadLink

GenerationLink = EngineLink[ToGeneration, Stepped, GenerationInfo]


def generation_thread_link(
    load: Callable[[], StepExecutor],
    limits: LimitsUpdate,
    *,
    depth: int = 0,
    clock: Callable[[], float] = time.monotonic,
) -> ThreadLink[ToGeneration, Stepped, GenerationInfo]:
    """Return a link to a generation engine in threads of this process."""
    return ThreadLink(ThreadHost(partial(open_generation_engine, load, limits, depth), clock))


def generation_process_link(
    load: Callable[[], StepExecutor],
    limits: LimitsUpdate,
    *,
    depth: int = 0,
    clock: Callable[[], float] = time.monotonic,
) -> ProcessLink[ToGeneration, Stepped, GenerationInfo]:
    """Return a link to a generation engine in a child process; `load` is sent to it, so it must be picklable."""
    return ProcessLink(partial(open_generation_engine, load, limits, depth), clock)
