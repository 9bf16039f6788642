"""The placements of an engine that must all keep the same contract (`engine/link/base.py`)."""

import asyncio
from collections.abc import AsyncIterator, Awaitable, Callable
from pathlib import Path

import pytest
import pytest_asyncio

from penstock_api.pod_contract import LimitsUpdate
from penstock_runtime.engine.link.batch import BatchLink, batch_process_link, batch_thread_link
from penstock_runtime.engine.messages import EngineDied, FromEngine, Settled, Submit, ToEngine
from penstock_runtime.engine.model import Model, ModelInfo
from penstock_runtime.request import End, Request
from tests.unit.runtime.engine.link.models import Gate

Place = Callable[[Callable[[], Model], LimitsUpdate], BatchLink]

PLACEMENTS: dict[str, Place] = {"thread": batch_thread_link, "process": batch_process_link}


class Client:
    """The HTTP side as tests need it: sends requests, keeps what was delivered, waits for ends."""

    def __init__(self, link: BatchLink) -> None:
        self.link = link
        self.delivered: list[FromEngine] = []
        self.ends: dict[str, End] = {}
        self._news = asyncio.Event()

    async def start(self) -> ModelInfo:
        return await self.link.start(self._deliver)

    def _deliver(self, message: FromEngine) -> None:
        self.delivered.append(message)
        if isinstance(message, Settled):
            for name, end in message.ends:
                assert name not in self.ends, f"{name} ended twice"
                self.ends[name] = end
        self._news.set()

    def send(self, message: ToEngine) -> None:
        self.link.send(message)

    def submit(self, *requests: Request) -> None:
        self.send(Submit(requests))

    async def sent(self) -> None:
        """Wait until what was sent has left: a link sends once a turn of the loop."""
        await asyncio.sleep(0)

    async def until(self, true: Callable[[], bool]) -> None:
        """Wait until `true()`; a message that never comes fails the test within 60 s."""
        async with asyncio.timeout(60):
            while not true():
                self._news.clear()
                await self._news.wait()

    async def ends_of(self, *ids: str) -> list[End]:
        await self.until(lambda: all(name in self.ends for name in ids))
        return [self.ends[name] for name in ids]

    @property
    def settled(self) -> list[Settled]:
        return [message for message in self.delivered if isinstance(message, Settled)]

    @property
    def deaths(self) -> list[EngineDied]:
        return [message for message in self.delivered if isinstance(message, EngineDied)]


Connect = Callable[[Callable[[], Model], LimitsUpdate], Awaitable[Client]]


@pytest.fixture(params=sorted(PLACEMENTS))
def place(request: pytest.FixtureRequest) -> Place:
    return PLACEMENTS[request.param]


@pytest_asyncio.fixture
async def connect(place: Place) -> AsyncIterator[Connect]:
    """Give a function that starts an engine; all are closed at the end."""
    clients: list[Client] = []

    async def start(load: Callable[[], Model], limits: LimitsUpdate) -> Client:
        client = Client(place(load, limits))
        clients.append(client)
        await client.start()
        return client

    yield start
    for client in clients:
        await client.link.close()


@pytest.fixture
def gate(tmp_path: Path) -> Gate:
    """A gate that the model and the test share, whichever process runs the model."""
    return Gate(tmp_path)
