"""One request over the wire: sent once, never retried, always ended."""

from collections.abc import Callable
from dataclasses import dataclass
from typing import Self

import aiohttp

from penstock_api.names import HEADER_POD
from tests.load.questions import Question
from tests.load.tally import Ended, Outcome, outcome_of


@dataclass(frozen=True, slots=True)
class Connections:
    """How connections are used.

    `clients` 0 means as many keep-alive connections as requests in flight need; a number caps them, and then
    requests wait for a free one (their latency shows it). Without keep-alive each request opens its own.
    """

    keep_alive: bool = True
    clients: int = 0


class Sender:
    """An aiohttp session that turns questions into ends. Use as an async context manager."""

    def __init__(
        self, url: str, connections: Connections, timeout_seconds: float, clock: Callable[[], float]
    ) -> None:
        self._url = url
        self._connections = connections
        self._timeout = aiohttp.ClientTimeout(total=timeout_seconds, sock_connect=10)
        self._clock = clock
        self._session: aiohttp.ClientSession

    async def __aenter__(self) -> Self:
        # 15 s is below any server's own idle limit, so an idle connection is never closed under a request.
        idle = (
            {"keepalive_timeout": 15.0} if self._connections.keep_alive else {"force_close": True}
        )
        connector = aiohttp.TCPConnector(limit=self._connections.clients, **idle)
        self._session = aiohttp.ClientSession(connector=connector, timeout=self._timeout)
        return self

    async def __aexit__(self, *error: object) -> None:
        await self._session.close()

    async def ask(self, question: Question, intended: float) -> Ended:
        """Send one question and return how it ended; raises only on cancellation."""
        try:
            async with self._session.post(
                self._url, data=question.body, headers=question.headers
            ) as answer:
                body = await answer.read()
        except (aiohttp.ClientError, TimeoutError, OSError) as error:
            note = f"{type(error).__name__}: {error}"
            return Ended(intended, self._clock(), Outcome.LOST, note=note)
        return self._judge(question, intended, answer, body)

    def _judge(
        self, question: Question, intended: float, answer: aiohttp.ClientResponse, body: bytes
    ) -> Ended:
        correct = answer.status == 200 and question.is_answered_by(body)
        refused = "Retry-After" in answer.headers
        outcome = outcome_of(answer.status, retry_after=refused, correct=correct)
        odd = outcome in (Outcome.LOST, Outcome.WRONG)
        note = f"{answer.status} {body[:300]!r}" if odd else ""
        pod = answer.headers.get(HEADER_POD, "")
        return Ended(intended, self._clock(), outcome, pod, note)
