"""Stand-in for the API server: lists and watches of Services and Pods, with versions, bookmarks and faults.

It has what the real one does to a watch and a test cannot make it do at will: it goes away and returns on the same
address, forgets old versions (410), and ends watches.
"""

import asyncio
import json
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager, suppress
from typing import Any

from aiohttp import web

from penstock_api import names

Json = dict[str, Any]


class ApiServer:
    """Objects by plural and name; every change has the next resourceVersion."""

    def __init__(self) -> None:
        self.objects: dict[str, dict[str, Json]] = {"services": {}, "pods": {}}
        self.lists = 0
        self.watches = 0
        self.errors = 0
        self.status = 200
        """Status of every answer; another than 200 is an error."""
        self.silent = False
        """Whether watches end at once, without an event."""
        self._version = 100
        self._oldest = 0
        self._events: list[tuple[int, str, str, Json]] = []
        self._ends = 0
        """Times that all watches were closed."""
        self._changed = asyncio.Condition()
        self._runner: web.AppRunner | None = None
        self.port = 0

    @property
    def url(self) -> str:
        """The URL."""
        return f"http://127.0.0.1:{self.port}"

    async def put(self, plural: str, item: Json) -> None:
        """Create or replace an object."""
        known = item["metadata"]["name"] in self.objects[plural]
        await self._record("MODIFIED" if known else "ADDED", plural, item)
        self.objects[plural][item["metadata"]["name"]] = item

    async def delete(self, plural: str, name: str) -> None:
        """Delete an object."""
        await self._record("DELETED", plural, self.objects[plural].pop(name))

    async def expire(self) -> None:
        """Forget all versions up to now, and end the watches: the next gets a 410."""
        self._oldest = self._version
        self._version += 1
        await self.end_watches()

    async def end_watches(self) -> None:
        """Close every watch, as the real server does at its time-out."""
        async with self._changed:
            self._ends += 1
            self._changed.notify_all()

    async def start(self) -> None:
        """Serve; after `stop`, on the same port."""
        app = web.Application()
        app.router.add_get("/api/v1/namespaces/{namespace}/{plural}", self._answer)
        self._runner = web.AppRunner(app, access_log=None, shutdown_timeout=0.1)
        await self._runner.setup()
        await web.TCPSite(self._runner, "127.0.0.1", self.port).start()
        self.port = self._runner.addresses[0][1]

    async def stop(self) -> None:
        """Go away; open watches break."""
        if self._runner is not None:
            await self._runner.cleanup()

    async def _record(self, kind: str, plural: str, item: Json) -> None:
        async with self._changed:
            self._version += 1
            item["metadata"]["resourceVersion"] = str(self._version)
            self._events.append((self._version, kind, plural, json.loads(json.dumps(item))))
            self._changed.notify_all()

    async def _answer(self, request: web.Request) -> web.StreamResponse:
        if self.status != 200:
            self.errors += 1
            return web.json_response({"kind": "Status"}, status=self.status)
        plural = request.match_info["plural"]
        if "watch" in request.query:
            answer = web.StreamResponse()
            await answer.prepare(request)
            with suppress(ConnectionError):  # its client left
                await self._watch(answer, plural, int(request.query["resourceVersion"]))
            return answer
        self.lists += 1
        items = list(self.objects[plural].values())
        return web.json_response(
            {"metadata": {"resourceVersion": str(self._version)}, "items": items}
        )

    async def _watch(self, answer: web.StreamResponse, plural: str, since: int) -> None:
        self.watches += 1
        if self.silent:
            return
        ends = self._ends
        if since <= self._oldest:
            await answer.write(_line("ERROR", {"code": 410, "message": "too old"}))
            return
        sent = sum(version <= since for version, *_ in self._events)
        if sent == len(self._events):
            mark = {"metadata": {"resourceVersion": str(self._version)}}
            await answer.write(_line("BOOKMARK", mark))
        while True:
            async with self._changed:
                while len(self._events) == sent and ends == self._ends:
                    await self._changed.wait()
                fresh, sent = self._events[sent:], len(self._events)
            if ends != self._ends:
                return
            for version, kind, of, item in fresh:
                if of == plural and version > since:
                    await answer.write(_line(kind, item))


def _line(kind: str, item: Json) -> bytes:
    return json.dumps({"type": kind, "object": item}).encode() + b"\n"


@asynccontextmanager
async def serving() -> AsyncIterator[ApiServer]:
    """Serve until the block ends."""
    server = ApiServer()
    await server.start()
    try:
        yield server
    finally:
        await server.stop()


def service(pool: str, port: int | str, scheme: str = "http", **labels: str) -> Json:
    """Return a pool's Service that announces a listener."""
    metadata = {
        "name": pool,
        "labels": {names.LABEL_POOL: pool, **labels},
        "annotations": {names.ANNOTATION_GATEWAY_PORT: str(port)},
    }
    port_spec = {"port": names.CLIENT_PORT, "appProtocol": scheme}
    return {"metadata": metadata, "spec": {"ports": [port_spec]}}


def pod(
    name: str,
    pool: str,
    address: str,
    *,
    ready: bool = True,
    deleting: bool = False,
    scheme: str = "http",
) -> Json:
    """Return a pool's pod."""
    labels = {names.LABEL_POOL: pool, names.LABEL_POOL_UID: f"{pool}-uid"}
    metadata: Json = {"name": name, "labels": labels}
    if scheme != "http":
        metadata["annotations"] = {names.ANNOTATION_SCHEME: scheme}
    if deleting:
        metadata["deletionTimestamp"] = "2026-01-01T00:00:00Z"
    condition = {"type": "Ready", "status": "True" if ready else "False"}
    return {
        "metadata": metadata,
        "status": {"phase": "Running", "podIP": address, "conditions": [condition]},
    }
