"""HTTP sender of sample requests, without retries."""

import itertools
from collections.abc import Callable
from dataclasses import dataclass
from typing import Self

import aiohttp

from penstock_api.names import HEADER_POD
from tests.support.load.samples import SampleRequest
from tests.support.load.tally import FinishedRequest, LoadOutcome, outcome_of

UNREACHED = (aiohttp.ClientConnectorError, aiohttp.ConnectionTimeoutError)


@dataclass(frozen=True, slots=True)
class Connections:
    """Use of connections.

    With `clients` above 0, that many clients with one connection each take turns: a request waits for its client's
    connection, and the wait counts towards its latency. With 0, one client opens as many connections as requests are
    in flight. Without keep-alive each request opens its own.
    """

    keep_alive: bool = True
    clients: int = 0


class Sender:
    """aiohttp sessions that send requests and return their outcomes. Use as an async context manager."""

    def __init__(
        self, url: str, connections: Connections, timeout_seconds: float, clock: Callable[[], float]
    ) -> None:
        self._url = url
        self._connections = connections
        self._timeout = aiohttp.ClientTimeout(total=timeout_seconds, sock_connect=10)
        self._clock = clock
        self._sessions: list[aiohttp.ClientSession] = []
        self._turn = itertools.count()

    async def __aenter__(self) -> Self:
        self._sessions = [self._session() for _ in range(max(1, self._connections.clients))]
        return self

    async def __aexit__(self, *error: object) -> None:
        for session in self._sessions:
            await session.close()

    def _session(self) -> aiohttp.ClientSession:
        limit = 1 if self._connections.clients else 0
        if self._connections.keep_alive:
            # 15 s is below any server's own idle limit: no idle connection is closed under a request
            connector = aiohttp.TCPConnector(limit=limit, keepalive_timeout=15.0)
        else:
            connector = aiohttp.TCPConnector(limit=limit, force_close=True)
        return aiohttp.ClientSession(connector=connector, timeout=self._timeout)

    async def send(self, sample_request: SampleRequest, intended: float) -> FinishedRequest:
        """Send a request and return its outcome; raises only on cancellation."""
        session = self._sessions[next(self._turn) % len(self._sessions)]
        try:
            async with session.post(
                self._url, data=sample_request.body, headers=sample_request.headers
            ) as answer:
                body = await answer.read()
        except (aiohttp.ClientError, TimeoutError, OSError) as error:
            note = f"{type(error).__name__}: {error}"
            reached = not isinstance(error, UNREACHED)
            return FinishedRequest(
                intended, self._clock(), LoadOutcome.LOST, note=note, reached=reached
            )
        return self._judge(sample_request, intended, answer, body)

    def _judge(
        self,
        sample_request: SampleRequest,
        intended: float,
        answer: aiohttp.ClientResponse,
        body: bytes,
    ) -> FinishedRequest:
        correct = answer.status == 200 and sample_request.accepts(body)
        refused = "Retry-After" in answer.headers
        outcome = outcome_of(answer.status, retry_after=refused, correct=correct)
        odd = outcome in (LoadOutcome.LOST, LoadOutcome.WRONG)
        note = f"{answer.status} {body[:300]!r}" if odd else ""
        pod = answer.headers.get(HEADER_POD, "")
        return FinishedRequest(intended, self._clock(), outcome, pod, note)
