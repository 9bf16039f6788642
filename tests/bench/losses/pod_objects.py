"""`PodObjects`: the pods as the API server has them. While it is away, no write of a pod succeeds."""

import asyncio
from dataclasses import dataclass, field

from tests.support.gateway.api_server import ApiServer, Json


@dataclass(frozen=True, slots=True)
class PodObjects:
    """Writes wait for the API server, as those of the kubelet and of controllers do: no pod is deleted while it is away."""

    api: ApiServer
    away: asyncio.Lock = field(default_factory=asyncio.Lock)
    """Held by the event that takes the API server away."""

    async def put(self, pod: Json) -> None:
        """Create or replace a pod."""
        async with self.away:
            await self.api.put("pods", pod)

    async def delete(self, name: str) -> None:
        """Delete a pod."""
        async with self.away:
            await self.api.delete("pods", name)
