"""aiohttp's runner and server, with connections of our own."""

from collections.abc import Callable

from aiohttp import web


class ClientsServer(web.Server):
    """The server that aiohttp made for an application, but for the connections that it makes."""

    def __init__(self, made: web.Server, connection: Callable[..., web.RequestHandler]) -> None:
        vars(self).update(vars(made))  # aiohttp has no seam between an application and its protocol
        self._connection = connection

    def __call__(self) -> web.RequestHandler:
        """Return the protocol of a new connection."""
        return self._connection(self, loop=self._loop, **self._kwargs)


class ClientsRunner(web.AppRunner):
    """Runs an application for connections of a kind."""

    __slots__ = ("_connection",)

    def __init__(
        self, app: web.Application, connection: Callable[..., web.RequestHandler], **more: object
    ) -> None:
        """`connection` is called with the server, and what aiohttp gives its own protocol, for each new one."""
        super().__init__(app, **more)  # type: ignore[arg-type]
        self._connection = connection

    async def _make_server(self) -> web.Server:
        return ClientsServer(await super()._make_server(), self._connection)
