"""Links to a batch engine, in a thread or a process."""

import time
from collections.abc import Callable, Sequence
from functools import partial

from penstock_api.pod_contract import LimitsUpdate
from penstock_runtime.engine.dynamic.opening import open_batch_engine
from penstock_runtime.engine.link.base import EngineLink
from penstock_runtime.engine.link.data_parallel import DataParallelLink
from penstock_runtime.engine.link.merged_reports import cap_shares
from penstock_runtime.engine.link.process.deadlines import DeadlineWatch
from penstock_runtime.engine.link.process.link import ProcessLink
from penstock_runtime.engine.link.thread.event_loop_host import EventLoopHost
from penstock_runtime.engine.link.thread.link import ThreadLink
from penstock_runtime.engine.messages import Settled, ToEngine
from penstock_runtime.engine.model import Model, ModelInfo

BatchLink = EngineLink[ToEngine, Settled, ModelInfo]


def batch_thread_link(
    load: Callable[[], Model],
    limits: LimitsUpdate,
    clock: Callable[[], float] = time.monotonic,
    max_inline_seconds: float = 0.0,
) -> ThreadLink[ToEngine, Settled, ModelInfo]:
    """Return a link to a batch engine in a thread; batches up to `max_inline_seconds` run in the event loop."""
    opener = partial(open_batch_engine, load, limits)
    return ThreadLink(EventLoopHost(opener, clock, max_inline_seconds))


def data_parallel_link(
    loads: Sequence[Callable[[], Model]],
    limits: LimitsUpdate,
    clock: Callable[[], float] = time.monotonic,
) -> DataParallelLink:
    """Return a link to one batch engine for each of `loads`, which are picklable, in child processes."""
    shares = cap_shares(limits.max_batch_size, len(loads))
    firsts = [limits.model_copy(update={"max_batch_size": max(1, cap)}) for cap in shares]
    links = [
        batch_process_link(load, first, clock) for load, first in zip(loads, firsts, strict=True)
    ]
    return DataParallelLink(links, limits.max_batch_size, clock)


def batch_process_link(
    load: Callable[[], Model], limits: LimitsUpdate, clock: Callable[[], float] = time.monotonic
) -> ProcessLink[ToEngine, Settled, ModelInfo]:
    """Return a link to a batch engine in a child process; `load` is sent to it, so it must be picklable."""
    return ProcessLink(partial(open_batch_engine, load, limits), clock, DeadlineWatch(clock))
