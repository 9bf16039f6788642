"""aiohttp's runner and server, with connections that have a fast lane."""

from aiohttp import web

from penstock_runtime.protocols.fast_lane.connection import LaneConnection
from penstock_runtime.protocols.fast_lane.lane import FastLane


class LaneServer(web.Server):
    """The server that aiohttp made for an application, but for the connections that it makes."""

    def __init__(self, made: web.Server, lane: FastLane) -> None:
        vars(self).update(vars(made))  # aiohttp has no seam between an application and its protocol
        self._lane = lane

    def __call__(self) -> web.RequestHandler:
        """Return the protocol of a new connection."""
        return LaneConnection(self, lane=self._lane, loop=self._loop, **self._kwargs)


class LaneRunner(web.AppRunner):
    """Runs an application behind a fast lane."""

    __slots__ = ("_lane",)

    def __init__(self, app: web.Application, lane: FastLane, **more: object) -> None:
        super().__init__(app, **more)  # type: ignore[arg-type]
        self._lane = lane

    async def _make_server(self) -> web.Server:
        return LaneServer(await super()._make_server(), self._lane)
