"""aiohttp's runner and server with a protocol class of Penstock's own."""

from collections.abc import Callable

from aiohttp import web
from typing_extensions import override


class ClientsServer(web.Server):
    """A copy of aiohttp's server for an application that creates another protocol for each connection."""

    def __init__(self, server: web.Server, connection: Callable[..., web.RequestHandler]) -> None:
        vars(self).update(
            vars(server)
        )  # aiohttp has no seam between an application and its protocol
        self._connection = connection

    def __call__(self) -> web.RequestHandler:
        """Return the protocol of a new connection."""
        return self._connection(self, loop=self._loop, **self._kwargs)


class ClientsRunner(web.AppRunner):
    """Runs an application with a given protocol."""

    __slots__ = ("_connection",)

    def __init__(
        self, app: web.Application, connection: Callable[..., web.RequestHandler], **more: object
    ) -> None:
        """`connection` creates the protocol of each new connection, from the server and the arguments of aiohttp's own."""
        super().__init__(app, **more)  # type: ignore[arg-type]
        self._connection = connection

    @override
    async def _make_server(self) -> web.Server:
        return ClientsServer(await super()._make_server(), self._connection)
