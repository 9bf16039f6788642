"""A gateway with a real Envoy in front of pods on loopback addresses."""

import asyncio
from collections.abc import AsyncIterator, Callable
from contextlib import AbstractAsyncContextManager, asynccontextmanager

import pytest

from tests.support.gateway.api_server import service
from tests.support.gateway.stack import Stack, stack

RunningGateway = Callable[..., AbstractAsyncContextManager[Stack]]


@asynccontextmanager
async def running(pods: int = 1, **settings: str) -> AsyncIterator[Stack]:
    """Run a gateway that routes pool `demo` on port 10001 to `pods` pods, until it is ready."""
    async with stack(settings) as gateway:
        await gateway.api.put("services", service("demo", 10001))
        starting = [gateway.start_pod(f"pod-{number}") for number in range(pods)]
        await asyncio.gather(gateway.start_controller(), gateway.start_envoy(), *starting)
        await gateway.until_ready()
        await gateway.until_endpoints(pods)
        yield gateway


@pytest.fixture
def gateway() -> RunningGateway:
    """`async with gateway(pods=3) as running:`."""
    return running
