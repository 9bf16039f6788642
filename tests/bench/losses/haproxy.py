"""`HAProxy` in front of the pods, for the record: its servers follow the pods at once, by its runtime API."""

import asyncio
import shutil
import tempfile
from dataclasses import dataclass, field
from pathlib import Path
from typing import Final

from penstock_api import names
from tests.support.gateway.stack import Process

SERVER_STATES: Final = ("ready", "drain", "maint")
CONFIGURATION: Final = """
global
  nbthread 1
  stats socket {socket} level admin
  tune.bufsize 524288
defaults
  mode http
  timeout connect 1s
  timeout client 1h
  timeout server 1h
  option http-buffer-request
  option redispatch 1
  retries 5
  retry-on conn-failure empty-response
frontend pool
  bind {host}:{port}
  default_backend pods
backend pods
  balance leastconn
  http-reuse always
{servers}
"""
"""Bodies are kept for retries, as the gateway keeps them."""


@dataclass(slots=True)
class HAProxy:
    """One process with a server for each address that a pod may have, none of them in use at the start."""

    host: str
    port: int
    addresses: list[str]
    folder: Path = field(default_factory=lambda: Path(tempfile.mkdtemp(prefix="penstock-losses-")))
    _process: Process | None = None

    async def start(self) -> None:
        """Start it, and return once it accepts commands."""
        servers = "\n".join(
            f"  server pod-{number} {address}:{names.CLIENT_PORT} disabled check inter 1s"
            for number, address in enumerate(self.addresses)
        )
        file = self.folder / "haproxy.cfg"
        file.write_text(
            CONFIGURATION.format(
                socket=self._socket, host=self.host, port=self.port, servers=servers
            )
        )
        self._process = await asyncio.create_subprocess_exec(
            "haproxy", "-q", "-db", "-f", str(file)
        )
        while not self._socket.exists():
            assert self._process.returncode is None
            await asyncio.sleep(0.02)

    async def set(self, number: int, state: str) -> None:
        """Set the state of a server, one of `SERVER_STATES`."""
        reader, writer = await asyncio.open_unix_connection(str(self._socket))
        writer.write(f"set server pods/pod-{number} state {state}\n".encode())
        refusal = (await reader.read()).strip()
        writer.close()
        assert not refusal, refusal

    async def stop(self) -> None:
        """End it."""
        if self._process is not None:
            self._process.kill()
            await self._process.wait()
        shutil.rmtree(self.folder)

    @property
    def _socket(self) -> Path:
        return self.folder / "admin"
