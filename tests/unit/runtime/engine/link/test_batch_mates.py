"""After a batch, the next waits briefly for requests that are about to arrive, where the limits allow it."""

import asyncio

from penstock_runtime.engine.link.batch import batch_thread_link
from tests.unit.runtime.engine.dynamic.builders import a_request, limits
from tests.unit.runtime.engine.link.conftest import Client
from tests.unit.runtime.engine.link.thread.test_inline_policy import Watched

SLOW_SECONDS = 0.5


class ComingHint:
    """A hint that more requests are coming, and an event that it was read."""

    def __init__(self, *, comes: bool) -> None:
        self.comes = comes
        self.was_read = asyncio.Event()

    def __call__(self) -> bool:
        self.was_read.set()
        return self.comes


async def begun(client: Client) -> None:
    await client.until(lambda: client.settled[-1].report.running == 1)


async def after_one_batch(hint: ComingHint, cap: int = 8, delay_milliseconds: int = 5) -> Client:
    """Return a client whose first batch has just ended, while a second request waits."""
    model, bounds = Watched(free=True), limits(cap=cap, delay_milliseconds=delay_milliseconds)
    client = Client(batch_thread_link(lambda: model, bounds))
    await client.start()
    client.link.set_more_coming_hint(hint)
    model.seconds = SLOW_SECONDS
    client.submit(a_request("first"))
    await begun(client)
    client.submit(a_request("waits"))
    await client.ends_of("first")
    return client


async def sizes_at_the_end(client: Client, *ids: str) -> list[int]:
    await client.ends_of(*ids)
    await client.link.close()
    return [report.batch.rows for report in client.settled if report.batch]


async def test_what_was_on_its_way_shares_the_next_batch() -> None:
    hint = ComingHint(comes=True)
    client = await after_one_batch(hint)
    hint.was_read.clear()
    await hint.was_read.wait()
    hint.comes = False
    client.submit(a_request("joins"))
    assert await sizes_at_the_end(client, "waits", "joins") == [1, 2]


async def test_what_never_comes_is_not_waited_for_long() -> None:
    client = await after_one_batch(ComingHint(comes=True))
    assert await sizes_at_the_end(client, "waits") == [1, 1]


async def test_a_batch_does_not_wait_where_no_request_comes_or_the_limits_forbid_it() -> None:
    for comes, cap, delay in ((False, 8, 5), (True, 8, 0), (True, 1, 5)):
        client = await after_one_batch(ComingHint(comes=comes), cap, delay)
        await begun(client)
        client.submit(a_request("late"))
        assert await sizes_at_the_end(client, "waits", "late") == [1, 1, 1]
