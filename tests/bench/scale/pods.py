"""Fake pods: one process answers the metrics and the control API on all their addresses."""

from collections import Counter
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager
from dataclasses import dataclass, field
from ipaddress import IPv4Address

from aiohttp import web

from penstock_api import names
from penstock_api.pod_contract import (
    CurveSums,
    Discipline,
    Envelope,
    Limits,
    LimitsUpdate,
    PodLoad,
    Range,
    State,
)

FIRST = int(IPv4Address("10.128.0.0"))
BACKEND = "fake"
ENVELOPE = Envelope(
    max_batch_size=Range(min=1, max=64),
    max_queue_depth=Range(min=1, max=1_000_000),
    max_queue_delay_milliseconds=Range(min=0, max=60_000),
)
LIMITS = Limits(
    max_batch_size=1,
    max_queue_depth=2048,
    max_queue_delay_milliseconds=5,
    discipline=Discipline.FIRST_IN_FIRST_OUT,
)
METRICS = f"""{names.METRIC_POD_INFO}{{{{uid="{{uid}}"}}}} 1
{names.METRIC_REQUESTS_WAITING} 0
{names.METRIC_REQUESTS_RUNNING} 0
{names.METRIC_REQUESTS_RECEIVED} 0
{names.METRIC_ROWS_RECEIVED} 0
{names.METRIC_BATCH_CAP_BOUND} 64
{names.METRIC_LIMITS_GENERATION} {{generation}}
"""


def report(generation: int, limits: Limits) -> str:
    """Return the state of an idle pod with these limits, as JSON."""
    state = State(
        generation=generation,
        limits=limits,
        envelope=ENVELOPE,
        effective_max=64,
        converging=False,
        load=PodLoad(waiting=0, running=0),
        curve=CurveSums(),
        model=BACKEND,
        backend=BACKEND,
    )
    return state.model_dump_json(by_alias=True, exclude_none=True)


@dataclass
class Pods:
    """All fake pods by address. They are idle, like most pools of a large cluster."""

    uids: dict[str, str] = field(default_factory=dict)
    generations: dict[str, int] = field(default_factory=dict)
    requests: Counter[str] = field(default_factory=Counter)
    up: set[str] = field(default_factory=set)
    """UIDs of the pods that were bound and marked Ready."""
    _addresses: dict[str, str] = field(default_factory=dict)

    def address(self, uid: str) -> str:
        """Return the stable address of a pod."""
        if uid not in self._addresses:
            self.adopt(uid, self.next_address(), 0)
        return self._addresses[uid]

    def next_address(self) -> str:
        """Return an address that no pod has yet."""
        return str(IPv4Address(FIRST + 1 + len(self.uids)))

    def adopt(self, uid: str, ip: str, generation: int) -> None:
        """Add a pod with limits of a generation."""
        self._addresses[uid], self.uids[ip], self.generations[ip] = ip, uid, generation

    @asynccontextmanager
    async def serving(self) -> AsyncIterator[None]:
        """Answer on the cluster port of every address of this machine."""
        app = web.Application()
        app.add_routes(
            [
                web.get(names.PATH_METRICS, self._metrics),
                web.get(names.PATH_STATE, self._state),
                web.patch(names.PATH_LIMITS, self._limits),
            ]
        )
        runner = web.AppRunner(app, access_log=None)
        await runner.setup()
        await web.TCPSite(runner, "0.0.0.0", names.CLUSTER_PORT, backlog=1024).start()  # noqa: S104
        try:
            yield
        finally:
            await runner.cleanup()

    def _ip(self, request: web.Request) -> str:
        self.requests[request.method] += 1
        assert request.transport is not None
        ip: str = request.transport.get_extra_info("sockname")[0]
        if ip not in self.uids:
            raise web.HTTPNotFound
        return ip

    async def _metrics(self, request: web.Request) -> web.Response:
        ip = self._ip(request)
        text = METRICS.format(uid=self.uids[ip], generation=self.generations.get(ip, 0))
        return web.Response(text=text)

    async def _state(self, request: web.Request) -> web.Response:
        return self._state_response(self._ip(request), LIMITS)

    async def _limits(self, request: web.Request) -> web.Response:
        ip = self._ip(request)
        update = LimitsUpdate.model_validate_json(await request.read())
        self.generations[ip] = update.generation
        return self._state_response(ip, update.limits())

    def _state_response(self, ip: str, limits: Limits) -> web.Response:
        body = report(self.generations.get(ip, 0), limits)
        return web.Response(text=body, content_type="application/json")
