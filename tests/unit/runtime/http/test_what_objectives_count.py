"""What the operator counts of a pod's requests: every end of interactive ones, no batch work and no client faults."""

import asyncio
from collections.abc import Iterator
from typing import Any

import pytest

from penstock_api.names import BATCH_PRIORITY, CLIENT_FAULTS
from penstock_api.pod_contract import Discipline
from penstock_operator.decide.scaling.signals.attainment import Attainment, Objectives, advance
from penstock_operator.observe.signals.samples import parse, pod_sample
from penstock_runtime.errors import (
    BatchWorkWaits,
    NotServing,
    RateExceeded,
    RequestRejected,
    Unrouted,
)
from tests.unit.runtime.http.fast_path.test_fast_path import connected, one_answer
from tests.unit.runtime.http.test_rejections import FULL, dismissed, filled
from tests.unit.runtime.http.wire_cases import body, post

LINE = {"priority": BATCH_PRIORITY}
BY_PRIORITY = FULL.model_copy(update={"discipline": Discipline.PRIORITY})
BOTH_PATHS = pytest.mark.parametrize("fast", [True, False], ids=["fast_path", "aiohttp"])


class Counted:
    """The attainment of one pod, as the operator counts it from scrapes."""

    def __init__(self, pod: Any) -> None:
        self.pod = pod
        self.attainment = Attainment()
        self._time = 0.0

    async def add(self) -> tuple[float, float]:
        """Return the numbers of good and of all requests since the first call."""
        self._time += 1
        async with self.pod.session.get(f"{self.pod.cluster_url}/metrics") as reply:
            sample = pod_sample(parse(await reply.text()), "uid-0", self._time)
        self.attainment = advance(self.attainment, [sample], Objectives(60_000))
        return self.attainment.good, self.attainment.total


async def answered(pod: Any, *sent: bytes) -> list[int]:
    """Return the statuses of requests that are sent one after another on one connection."""
    reader, writer = await connected(pod)
    statuses = []
    for each in sent:
        writer.write(each)
        statuses.append(int((await one_answer(reader)).split()[1]))
    writer.close()
    return statuses


@BOTH_PATHS
async def test_lines_of_batch_work_are_no_requests_of_an_objective(start: Any, fast: bool) -> None:
    pod = await start(fast_path=fast)
    counted = Counted(pod)
    await counted.add()
    line, failing = post(body(parameters=LINE)), post(body(value=666, parameters=LINE))
    assert await answered(pod, post(body()), *[line] * 5, failing) == [200] * 6 + [500]
    assert await counted.add() == (1, 1)
    assert counted.attainment.completed == 6, "a line is paid for as any request"
    assert await answered(pod, post(body(value=666))) == [500]
    assert await counted.add() == (1, 2)


@BOTH_PATHS
async def test_a_line_that_a_full_queue_rejects_is_neither_missed_nor_demand(
    start: Any, until: Any, fast: bool
) -> None:
    pod, clients = await filled(start, until, fast_path=fast)
    counted, rows = Counted(pod), pod.pod.counters.rows_received
    await counted.add()
    claim = f"X-Penstock-Priority: {BATCH_PRIORITY}"
    assert await answered(pod, post(body(parameters=LINE), claim)) == [429]
    assert await counted.add() == (0, 0)
    assert pod.pod.counters.rows_received == rows
    assert await answered(pod, post(body())) == [429]
    assert (await counted.add())[1] >= 1
    await dismissed(pod, clients)


@BOTH_PATHS
async def test_a_line_that_an_urgent_request_displaces_is_not_missed(
    start: Any, until: Any, fast: bool
) -> None:
    pod = await start(BY_PRIORITY, fast_path=fast)
    counted = Counted(pod)
    await counted.add()
    pod.model.gate.clear()
    clients = [await connected(pod) for _ in range(3)]
    for place, (priority, waiting) in enumerate(((1, 0), (BATCH_PRIORITY, 1), (1, 1))):
        clients[place][1].write(post(body(parameters={"priority": priority})))
        await until(lambda: pod.pod.admission.load().running == 1)
        await until(lambda: pod.pod.admission.waiting() == waiting)  # noqa: B023
    assert (await one_answer(clients[1][0])).startswith(b"HTTP/1.1 429")
    clients[1][1].close()
    await dismissed(pod, [clients[0], clients[2]])
    await until(lambda: pod.pod.counters.settled() == 3)
    assert await counted.add() == (2, 2)


async def test_faults_of_the_client_are_not_missed(start: Any) -> None:
    pod = await start()
    counted = Counted(pod)
    await counted.add()
    assert await answered(pod, post(b"no JSON"), post(body())) == [400, 200]
    assert await counted.add() == (1, 1)


def kinds(kind: type[RequestRejected]) -> Iterator[type[RequestRejected]]:
    for each in kind.__subclasses__():
        yield each
        yield from kinds(each)


@pytest.mark.parametrize("kind", sorted(set(kinds(RequestRejected)), key=str))
def test_an_objective_counts_a_rejection_unless_the_client_caused_it(
    kind: type[RequestRejected],
) -> None:
    if issubclass(kind, (NotServing, Unrouted)):
        return  # the reasons of the one are those of its instances; the other is not counted at all
    of_the_pod = kind.status == 429 or kind.status >= 500
    counts = of_the_pod and kind not in (RateExceeded, BatchWorkWaits)
    assert counts == (kind.reason not in CLIENT_FAULTS)


async def test_interactive_requests_that_end_together_are_counted(start: Any) -> None:
    pod = await start()
    counted = Counted(pod)
    await counted.add()
    sent = [answered(pod, post(body())) for _ in range(3)]
    sent += [answered(pod, post(body(parameters=LINE))) for _ in range(2)]
    assert await asyncio.gather(*sent) == [[200]] * 5
    assert await counted.add() == (3, 3)
