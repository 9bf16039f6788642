"""Rate limit: 50 writes a second, with children before conditions before Events."""

import asyncio

from penstock_operator.act.rate_limit import TokenBucket, Urgency, WriteBudget


def test_a_full_bucket_admits_a_burst_and_then_one_write_each_fiftieth_of_a_second() -> None:
    bucket = TokenBucket(rate=50, burst=50, tokens=50, updated=0.0)

    assert [bucket.take(0.0) for _ in range(50)] == [0.0] * 50
    assert bucket.take(0.0) == 0.02
    assert bucket.take(0.02) == 0.0


def test_an_idle_bucket_does_not_grow_beyond_its_burst() -> None:
    bucket = TokenBucket(rate=50, burst=50, tokens=0, updated=0.0)

    assert sum(bucket.take(3600.0) == 0.0 for _ in range(60)) == 50


def test_a_clock_that_steps_back_neither_adds_nor_removes_tokens() -> None:
    bucket = TokenBucket(rate=1, burst=1, tokens=0.5, updated=100.0)

    assert bucket.take(50.0) == 0.5
    assert bucket.take(100.5) == 0.0


async def test_the_most_urgent_writer_goes_first() -> None:
    now = [0.0]
    budget = WriteBudget(TokenBucket(rate=1000, burst=1, tokens=0), lambda: now[0])
    served: list[str] = []

    async def writer(name: str, urgency: Urgency) -> None:
        await budget.turn(urgency)
        served.append(name)

    tasks = [
        asyncio.create_task(writer("event", Urgency.EVENT)),
        asyncio.create_task(writer("child", Urgency.CHILD)),
        asyncio.create_task(writer("condition", Urgency.CONDITION)),
        asyncio.create_task(writer("second child", Urgency.CHILD)),
    ]
    while not all(task.done() for task in tasks):
        await asyncio.sleep(0.001)
        now[0] += 0.001

    assert served == ["child", "second child", "condition", "event"]


async def test_a_cancelled_writer_takes_no_token() -> None:
    budget = WriteBudget(TokenBucket(rate=100, burst=1, tokens=1, updated=0.0), lambda: 0.0)
    await budget.turn(Urgency.CHILD)
    gone = asyncio.create_task(budget.turn(Urgency.CHILD))
    await asyncio.sleep(0)
    gone.cancel()
    await asyncio.gather(gone, return_exceptions=True)
    budget.bucket.tokens = 1.0

    await asyncio.wait_for(budget.turn(Urgency.EVENT), 5)

    assert budget.bucket.tokens == 0.0
