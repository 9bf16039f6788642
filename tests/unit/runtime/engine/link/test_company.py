"""After a batch the next is held for what is about to come, but not for long, and only where the limits allow it."""

import asyncio

from penstock_runtime.engine.link.batch import batch_thread_link
from tests.unit.runtime.engine.dynamic.builders import a_request, limits
from tests.unit.runtime.engine.link.conftest import Client
from tests.unit.runtime.engine.link.test_brevity import Watched

SLOW_SECONDS = 0.5


class Company:
    """Says whether more is coming; notes that it was asked."""

    def __init__(self, *, comes: bool) -> None:
        self.comes = comes
        self.asked = asyncio.Event()

    def __call__(self) -> bool:
        self.asked.set()
        return self.comes


async def begun(client: Client) -> None:
    await client.until(lambda: client.settled[-1].report.running == 1)


async def after_one_batch(company: Company, cap: int = 8, delay_milliseconds: int = 5) -> Client:
    """Return a client whose first batch has just ended, while a second request waits."""
    model, bounds = Watched(free=True), limits(cap=cap, delay_milliseconds=delay_milliseconds)
    client = Client(batch_thread_link(lambda: model, bounds))
    await client.start()
    client.link.set_more_coming_hint(company)
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
    company = Company(comes=True)
    client = await after_one_batch(company)
    company.asked.clear()
    await company.asked.wait()
    company.comes = False
    client.submit(a_request("joins"))
    assert await sizes_at_the_end(client, "waits", "joins") == [1, 2]


async def test_what_never_comes_is_not_waited_for_long() -> None:
    client = await after_one_batch(Company(comes=True))
    assert await sizes_at_the_end(client, "waits") == [1, 1]


async def test_nothing_is_held_where_nobody_comes_or_the_limits_forbid_it() -> None:
    for company, cap, delay in ((False, 8, 5), (True, 8, 0), (True, 1, 5)):
        client = await after_one_batch(Company(comes=company), cap, delay)
        await begun(client)
        client.submit(a_request("late"))
        assert await sizes_at_the_end(client, "waits", "late") == [1, 1, 1]
