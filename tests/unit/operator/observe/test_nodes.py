"""Labels of nodes: read by name, shared, kept for an hour; a missing permission is part of the answer."""

import asyncio
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager

import pytest
from aiohttp import web
from kubernetes.aio.client.configuration import Configuration

from penstock_operator.kube.client import ApiClient
from penstock_operator.observe.nodes import (
    FAILURE_SECONDS,
    FORBIDDEN,
    FORBIDDEN_SECONDS,
    LABEL_SECONDS,
    METADATA_ONLY,
    NodeReader,
)
from penstock_operator.observed import NodeView
from tests.support.kube.loopback import listening

NOW = 1000.0


class Nodes:
    """An API server with nodes by name; others are absent, and every read has the status `failing`, if any."""

    def __init__(self, **labels: dict[str, str]) -> None:
        self.labels = labels
        self.failing = 0
        self.requests: list[tuple[str, str]] = []

    async def answer(self, request: web.Request) -> web.Response:
        name = request.match_info["name"]
        self.requests.append((name, request.headers["Accept"]))
        code = self.failing or (404 if name not in self.labels else 200)
        if code != 200:
            reason = {403: "Forbidden", 404: "NotFound", 500: "InternalError"}[code]
            return web.json_response(
                {"kind": "Status", "code": code, "reason": reason}, status=code
            )
        return web.json_response({"metadata": {"name": name, "labels": self.labels[name]}})

    @asynccontextmanager
    async def reader(self) -> AsyncIterator[NodeReader]:
        app = web.Application()
        app.router.add_get("/api/v1/nodes/{name}", self.answer)
        async with listening(app, shutdown_seconds=0.1) as url:
            configuration = Configuration()
            configuration.host = url
            client = ApiClient(configuration)
            try:
                yield NodeReader(client)
            finally:
                await client.close()


async def test_labels_are_read_once_an_hour_for_all_pools_and_only_metadata() -> None:
    nodes = Nodes(a={"gpu": "h100"}, b={})
    async with nodes.reader() as reader:
        wide, narrow = await asyncio.gather(reader.read({"a", "b"}, NOW), reader.read({"a"}, NOW))
        assert wide == NodeView({"a": {"gpu": "h100"}, "b": {}})
        assert narrow == NodeView({"a": {"gpu": "h100"}})
        assert sorted(nodes.requests) == [("a", METADATA_ONLY), ("b", METADATA_ONLY)]
        nodes.labels["a"] = {"gpu": "l4"}
        kept = await reader.read({"a"}, NOW + LABEL_SECONDS - 1)
        assert kept.labels["a"] == {"gpu": "h100"}
        later = await reader.read({"a"}, NOW + LABEL_SECONDS)
        assert later.labels["a"] == {"gpu": "l4"}


async def test_without_permission_the_remedy_is_named_and_asked_again_after_minutes() -> None:
    nodes = Nodes(a={"gpu": "h100"})
    nodes.failing = 403
    async with nodes.reader() as reader:
        assert await reader.read({"a"}, NOW) == NodeView(problem=FORBIDDEN)
        nodes.failing = 0
        assert await reader.read({"a"}, NOW + FORBIDDEN_SECONDS - 1) == NodeView(problem=FORBIDDEN)
        assert len(nodes.requests) == 1
        assert (await reader.read({"a"}, NOW + FORBIDDEN_SECONDS)).labels == {"a": {"gpu": "h100"}}
    assert "rbac.readNodes" in FORBIDDEN


async def test_labels_are_read_again_after_the_clock_was_set_back() -> None:
    nodes = Nodes(a={"gpu": "h100"})
    async with nodes.reader() as reader:
        await reader.read({"a"}, NOW)
        nodes.labels["a"] = {"gpu": "l4"}
        assert (await reader.read({"a"}, NOW - 7200)).labels["a"] == {"gpu": "l4"}


async def test_a_node_that_is_gone_hides_no_other() -> None:
    nodes = Nodes(a={"gpu": "h100"})
    async with nodes.reader() as reader:
        view = await reader.read({"a", "gone"}, NOW)
        assert view.labels == {"a": {"gpu": "h100"}}
        assert view.problem == "node gone cannot be read (NotFound)"
        nodes.labels["gone"] = {}
        assert (await reader.read({"gone"}, NOW + FAILURE_SECONDS - 1)).problem
        assert not (await reader.read({"gone"}, NOW + FAILURE_SECONDS)).problem


@pytest.mark.parametrize("status", [403, 500])
async def test_labels_that_cannot_be_read_again_stay(status: int) -> None:
    nodes = Nodes(a={"gpu": "h100"})
    async with nodes.reader() as reader:
        await reader.read({"a"}, NOW)
        nodes.failing = status
        later = NOW + LABEL_SECONDS
        for _ in range(3):
            assert await reader.read({"a"}, later) == NodeView({"a": {"gpu": "h100"}})
            later += FORBIDDEN_SECONDS
        nodes.failing, nodes.labels["a"] = 0, {"gpu": "l4"}
        assert (await reader.read({"a"}, later)).labels == {"a": {"gpu": "l4"}}


@pytest.mark.parametrize("names", [set(), frozenset()])
async def test_no_pods_need_no_node(names: set[str]) -> None:
    nodes = Nodes()
    async with nodes.reader() as reader:
        assert await reader.read(names, NOW) == NodeView()
    assert nodes.requests == []
