"""ADS over a Unix socket: one `Session` for each connection of an Envoy."""

import asyncio
import logging
from collections.abc import AsyncIterator, Callable, Iterator, Mapping
from pathlib import Path
from typing import Final

import grpc
import grpc.aio

from penstock_gateway.resources.pools import Configuration, Kind
from penstock_gateway.xds import wire
from penstock_gateway.xds.session import DeliveryState, DeltaRequest, RejectedVersion, Session

log = logging.getLogger(__name__)

STOP_SECONDS: Final = 0.5
"""Time for open streams to end when the server stops; Envoy connects again by itself."""

Context = grpc.aio.ServicerContext[DeltaRequest, bytes]


class _Connection:
    """A session and the event that wakes its writer."""

    def __init__(self, configuration: Configuration | None) -> None:
        self.session = Session(configuration)
        self.changed = asyncio.Event()


class AdsServer:
    """Serves the newest configuration to every connected Envoy; without one, connections wait."""

    def __init__(self, socket: Path, on_answer: Callable[[], None] = lambda: None) -> None:
        self._socket = socket
        self._on_answer = on_answer
        """Called when an Envoy accepted or rejected something."""
        self._server: grpc.aio.Server | None = None
        self._connections: list[_Connection] = []
        self._configuration: Configuration | None = None

    @property
    def session(self) -> Session | None:
        """The newest connection; None: no Envoy is connected."""
        return self._connections[-1].session if self._connections else None

    @property
    def ready(self) -> bool:
        """Whether the connected Envoy acknowledged a first snapshot."""
        return self.session is not None and self.session.ready

    def states(self, pool: str) -> Mapping[Kind, DeliveryState]:
        """Return where a pool's resources are on their way to Envoy."""
        session = self.session
        return session.states(pool) if session else dict.fromkeys(Kind, DeliveryState.PENDING)

    def rejections(self) -> Mapping[tuple[Kind, str], RejectedVersion]:
        """Return what Envoy rejected, by kind and pool."""
        return self.session.rejections() if self.session else {}

    def replace(self, configuration: Configuration) -> None:
        """Deliver `configuration` from now on."""
        self._configuration = configuration
        for connection in self._connections:
            connection.session.replace(configuration)
            connection.changed.set()

    async def start(self) -> None:
        """Listen on the socket; a stale one of a former process is replaced."""
        server = grpc.aio.server()
        handler: grpc.RpcMethodHandler[DeltaRequest, bytes] = grpc.stream_stream_rpc_method_handler(
            self._stream,
            request_deserializer=wire.parse_request,
        )
        server.add_generic_rpc_handlers(
            (
                grpc.method_handlers_generic_handler(
                    wire.SERVICE, {"DeltaAggregatedResources": handler}
                ),
            )
        )
        server.add_insecure_port(f"unix:{self._socket}")
        await server.start()
        self._server = server

    async def stop(self) -> None:
        """End the streams; Envoy keeps its configuration."""
        if self._server is not None:
            await self._server.stop(STOP_SECONDS)

    async def _stream(
        self, requests: AsyncIterator[DeltaRequest], _context: Context
    ) -> AsyncIterator[bytes]:
        connection = _Connection(self._configuration)
        self._connections.append(connection)
        reader = asyncio.create_task(self._read(requests, connection))
        log.info("Envoy connected")
        try:
            while not reader.done():
                await connection.changed.wait()
                connection.changed.clear()
                for data in list(_serialized(connection.session)):
                    yield data
        finally:
            reader.cancel()
            self._connections.remove(connection)
            log.info("Envoy disconnected; its configuration stays in force")

    async def _read(self, requests: AsyncIterator[DeltaRequest], connection: _Connection) -> None:
        try:
            async for request in requests:
                connection.session.receive(request)
                if request.error is not None:
                    log.error("Envoy rejected a resource: %s", request.error)
                connection.changed.set()
                self._on_answer()
        finally:
            connection.changed.set()


def _serialized(session: Session) -> Iterator[bytes]:
    """Yield what can be sent now; a resource that does not parse as a message of Envoy's API is rejected here."""
    for response in session.responses():
        try:
            yield wire.serialize_response(response)
        except wire.ParseError as error:
            log.error("a resource cannot be sent: %s", error)
            session.receive(DeltaRequest(response.kind, nonce=response.nonce, error=str(error)))
