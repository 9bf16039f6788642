"""Fake API server for kopf's watches: discovery, lists, and watches without events."""

import asyncio
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

from aiohttp import web

from penstock_operator.kube.kinds import WATCHED
from tests.support.kube.loopback import listening, write_kubeconfig

Json = dict[str, Any]


@dataclass(slots=True)
class ApiServer:
    """Serves objects by the path of their list; paths that contain a word of `forbidden` get 403."""

    objects: dict[str, list[Json]] = field(default_factory=dict)
    forbidden: set[str] = field(default_factory=set)
    requests: list[str] = field(default_factory=list)
    expiring: dict[str, int] = field(default_factory=dict)
    """How often the continuation token of a list expires after its first chunk, by path."""

    async def answer(self, request: web.Request) -> web.StreamResponse:
        """Handle a GET."""
        path = request.path
        if path in ("/api", "/apis"):
            return web.json_response({"versions": ["v1"]} if path == "/api" else _groups())
        if (resources := _resources(path)) is not None:
            return web.json_response({"resources": resources})
        self.requests.append(path)
        if any(word in path for word in self.forbidden):
            status = {"kind": "Status", "code": 403, "reason": "Forbidden", "message": "no"}
            return web.json_response(status, status=403)
        if "watch" in request.query:
            silent = web.StreamResponse()
            await silent.prepare(request)
            await asyncio.sleep(3600)
        if "continue" in request.query:
            self.expiring[path] -= 1
            expired = {"kind": "Status", "code": 410, "reason": "Expired", "message": "too old"}
            return web.json_response(expired, status=410)
        head: Json = {"metadata": {"resourceVersion": "9"}, "kind": "List", "apiVersion": "v1"}
        if self.expiring.get(path):
            head["metadata"]["continue"] = "more"
        return web.json_response({**head, "items": self.objects.get(path, [])})

    @asynccontextmanager
    async def serving(self, folder: Path) -> AsyncIterator[Path]:
        """Serve, and yield the path of a kubeconfig."""
        app = web.Application()
        app.router.add_get("/{any:.*}", self.answer)
        async with listening(app, shutdown_seconds=0.1) as url:
            yield write_kubeconfig(folder / "kubeconfig", url)


def _groups() -> Json:
    named = {kind.group: kind.version for kind in WATCHED if kind.group}
    return {
        "groups": [
            {
                "name": group,
                "versions": [{"groupVersion": f"{group}/{version}", "version": version}],
                "preferredVersion": {"groupVersion": f"{group}/{version}", "version": version},
            }
            for group, version in named.items()
        ]
    }


def _resources(path: str) -> list[Json] | None:
    """Return the discovery of one group and version, or None where `path` is not one."""
    group = [kind for kind in WATCHED if kind.path().rpartition("/")[0] == path]
    return [
        {
            "name": kind.plural,
            "singularName": kind.kind.lower(),
            "kind": kind.kind,
            "namespaced": kind.namespaced,
            "verbs": ["get", "list", "watch", "patch"],
        }
        for kind in group
    ] or None
