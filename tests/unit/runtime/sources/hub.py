"""A small server with the Hugging Face Hub's API for the real huggingface_hub, with injected faults."""

import asyncio
import hashlib
import threading
from collections.abc import Iterator, Mapping
from contextlib import contextmanager, suppress
from dataclasses import dataclass, field
from typing import Any

from aiohttp import web

from tests.support.kube.loopback import listening

SHA = "a" * 40
LFS_FROM = 2**16
"""Size above which files are LFS objects, as weights are on the hub."""


@dataclass
class Hub:
    """One repository at one commit."""

    files: Mapping[str, bytes]
    repository: str = "owner/tiny"
    sha: str = SHA
    token: str | None = None
    """Bearer token; requests without it are rejected."""
    cut_after: int | None = None
    """Break every transfer of a large file after so many bytes."""
    spoil: bool = False
    """Send another content than announced."""
    redirects: bool = True
    """Redirect large files to another host name, as the hub does; False: answer with them, as small mirrors do."""
    down: bool = False
    """Answer `status` to all."""
    status: int = 503
    """0: close connections without an answer."""
    files_down: bool = False
    """Answer 501, after which huggingface_hub does not try again, to requests for files."""
    chunk_bytes: int = 2**16
    pause_seconds: float = 0.0
    """Pause between two chunks of a large file."""
    sent: list[tuple[str, int, int]] = field(default_factory=list)
    """(path, offset, bytes) of every transfer of a file."""
    url: str = ""

    def app(self) -> web.Application:
        app = web.Application(middlewares=[self._door])
        app.router.add_get(f"/api/models/{self.repository}", self._info)
        app.router.add_get(f"/api/models/{self.repository}/revision/{{revision}}", self._info)
        app.router.add_get(f"/api/models/{self.repository}/tree/{{revision}}", self._tree)
        app.router.add_route(
            "*", f"/{self.repository}/resolve/{{revision}}/{{path:.*}}", self._resolve
        )
        app.router.add_get("/cdn/{path:.*}", self._cdn)
        return app

    @web.middleware
    async def _door(self, request: web.Request, handler: Any) -> web.StreamResponse:
        if self.files_down and "/resolve/" in request.path:
            return web.Response(status=501)
        if self.down:
            if not self.status and request.transport is not None:
                request.transport.close()
            return web.Response(status=self.status or 503)
        known = request.headers.get("Authorization") == f"Bearer {self.token}"
        if self.token and not known and not request.path.startswith("/cdn/"):
            return web.Response(status=401, headers={"X-Error-Code": "RepoNotFound"})
        try:
            response: web.StreamResponse = await handler(request)
        except web.HTTPNotFound:
            return web.Response(status=404, headers={"X-Error-Code": "RepoNotFound"})
        return response

    async def _info(self, request: web.Request) -> web.Response:
        if request.match_info.get("revision", "main") not in ("main", self.sha):
            return web.Response(status=404, headers={"X-Error-Code": "RevisionNotFound"})
        siblings = [{"rfilename": path} for path in self.files]
        return web.json_response({"id": self.repository, "sha": self.sha, "siblings": siblings})

    async def _tree(self, request: web.Request) -> web.Response:
        return web.json_response([entry(path, body) for path, body in self.files.items()])

    async def _resolve(self, request: web.Request) -> web.StreamResponse:
        path = request.match_info["path"]
        if path not in self.files:
            return web.Response(status=404, headers={"X-Error-Code": "EntryNotFound"})
        body, metadata = self.files[path], entry(path, self.files[path])
        headers = {"X-Repo-Commit": self.sha, "ETag": f'"{metadata["oid"]}"'}
        if "lfs" not in metadata:
            self.sent += [(path, 0, len(body))] if request.method == "GET" else []
            return web.Response(body=body, headers=headers)
        if not self.redirects:
            self.sent += [(path, 0, len(body))] if request.method == "GET" else []
            return web.Response(
                body=body, headers={**headers, "ETag": f'"{metadata["lfs"]["oid"]}"'}
            )
        headers |= {
            "X-Linked-ETag": f'"{metadata["lfs"]["oid"]}"',
            "X-Linked-Size": str(len(body)),
            "Location": f"{self.url.replace('127.0.0.1', 'localhost')}/cdn/{path}",
        }
        return web.Response(status=302, headers=headers)

    async def _cdn(self, request: web.Request) -> web.StreamResponse:
        """Serve a file under another host name; clients must not send the token."""
        path = request.match_info["path"]
        if "Authorization" in request.headers:
            return web.Response(status=400)
        body = self.files[path]
        start = request.http_range.start or 0
        content = bytes(len(body) - start) if self.spoil else body[start:]
        status = 206 if start else 200
        response = web.StreamResponse(status=status, headers={"Content-Length": str(len(content))})
        if start:
            response.headers["Content-Range"] = f"bytes {start}-{len(body) - 1}/{len(body)}"
        await response.prepare(request)
        stop = len(content) if self.cut_after is None else min(self.cut_after, len(content))
        for at in range(0, stop, self.chunk_bytes):
            with suppress(ConnectionError):
                await response.write(content[at : min(at + self.chunk_bytes, stop)])
            await asyncio.sleep(self.pause_seconds)
        self.sent.append((path, start, stop))
        if stop < len(content) and request.transport is not None:
            request.transport.close()
        return response


def entry(path: str, body: bytes) -> dict[str, Any]:
    """Return the tree entry of a file."""
    oid = hashlib.sha1(b"blob %d\0" % len(body) + body, usedforsecurity=False).hexdigest()
    metadata = {"type": "file", "path": path, "size": len(body), "oid": oid}
    if len(body) < LFS_FROM:
        return metadata
    large = {"oid": hashlib.sha256(body).hexdigest(), "size": len(body), "pointerSize": 134}
    return {**metadata, "lfs": large}


@contextmanager
def serving(hub: Hub, host: str = "127.0.0.1") -> Iterator[Hub]:
    """Serve it from its own thread, on loopback or at another address of this machine."""
    loop, started = asyncio.new_event_loop(), threading.Event()
    ended = asyncio.Event()

    async def serve() -> None:
        async with listening(hub.app(), shutdown_seconds=1, host=host) as hub.url:
            started.set()
            await ended.wait()
        await asyncio.sleep(0.1)  # transports that were closed end in the loop's next rounds

    thread = threading.Thread(target=loop.run_until_complete, args=(serve(),))
    thread.start()
    assert started.wait(10)
    try:
        yield hub
    finally:
        loop.call_soon_threadsafe(ended.set)
        thread.join()
        loop.close()
