"""`BatchSchedPolicy`: wake-ups of the event loop do not preempt long batches; short ones change nothing."""

import os

import pytest

from penstock_runtime.engine.link.batch import batch_thread_link
from penstock_runtime.engine.link.thread import cpu_priority
from penstock_runtime.engine.link.thread.cpu_priority import LONG_SECONDS, BatchSchedPolicy
from tests.unit.runtime.engine.dynamic.builders import a_request, limits
from tests.unit.runtime.engine.link.conftest import Client
from tests.unit.runtime.engine.link.thread.test_inline_policy import Watched


async def test_after_a_long_batch_the_loop_defers_until_the_link_is_closed() -> None:
    model = Watched()
    model.seconds = 2 * LONG_SECONDS
    client = Client(batch_thread_link(lambda: model, limits(cap=8)))
    await client.start()
    assert os.sched_getscheduler(0) == os.SCHED_OTHER
    client.submit(a_request("long"))
    await client.ends_of("long")
    assert os.sched_getscheduler(0) == os.SCHED_BATCH
    await client.link.close()
    assert os.sched_getscheduler(0) == os.SCHED_OTHER


async def test_short_batches_change_nothing(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(
        cpu_priority, "LONG_SECONDS", 60.0
    )  # what a busy machine makes of a short one
    model = Watched()
    client = Client(batch_thread_link(lambda: model, limits(cap=8)))
    await client.start()
    client.submit(a_request("short"))
    await client.ends_of("short")
    assert os.sched_getscheduler(0) == os.SCHED_OTHER
    await client.link.close()


def test_where_it_is_forbidden_nothing_breaks(monkeypatch: pytest.MonkeyPatch) -> None:
    def forbidden(*_: object) -> None:
        raise PermissionError("not permitted")

    monkeypatch.setattr(os, "sched_setscheduler", forbidden)
    policy = BatchSchedPolicy()
    policy.before(1.0)
    policy.before(1.0)
    policy.end()
    assert os.sched_getscheduler(0) == os.SCHED_OTHER
