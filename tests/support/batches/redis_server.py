"""A real `redis-server` on loopback with an append-only file, which a test can kill and start again."""

import shutil
import socket
import subprocess
import time
from pathlib import Path

from tests.support.cluster.places import Places


def program() -> str:
    """Return the server that `make tools` fetched, or else that of the machine."""
    fetched = Places.from_env().commands / "redis-server"
    path = str(fetched) if fetched.exists() else shutil.which("redis-server")
    assert path, "redis-server is fetched by `make tools`"
    return path


class RedisServer:
    """A server whose writes are on disk when it answers."""

    def __init__(self, folder: Path, *arguments: str, tls: Path | None = None) -> None:
        """`tls` is a folder with tls.crt, tls.key and ca.crt; the server serves TLS alone, to clients with a certificate."""
        self._folder = folder
        self._tls = tls
        self._arguments = arguments
        self.port = _free_port()
        self.process: subprocess.Popen[bytes] | None = None

    @property
    def url(self) -> str:
        """URL of the server, for the user `default`."""
        return self.url_of("")

    def url_of(self, user: str) -> str:
        """Return the URL for a user, as `name:password@`."""
        scheme = "redis" if self._tls is None else "rediss"
        return f"{scheme}://{user}localhost:{self.port}/0"

    def start(self) -> None:
        """Start it, and wait until it serves what it has on disk."""
        self.process = subprocess.Popen(
            [
                program(), *self._listening(), "--bind", "127.0.0.1", "--dir", str(self._folder),
                "--appendonly", "yes", "--appendfsync", "always", "--save", "", *self._arguments,
            ],
            stdout=subprocess.DEVNULL,
            stderr=subprocess.DEVNULL,
        )  # fmt: skip
        deadline = time.monotonic() + 30
        while not self._serves():
            assert self.process.poll() is None
            assert time.monotonic() < deadline
            time.sleep(0.02)

    def kill(self) -> None:
        """Kill it with SIGKILL."""
        if self.process is not None:
            self.process.kill()
            self.process.wait()

    def _listening(self) -> list[str]:
        if self._tls is None:
            return ["--port", str(self.port)]
        return [
            "--port", "0", "--tls-port", str(self.port), "--tls-ca-cert-file", f"{self._tls}/ca.crt",
            "--tls-cert-file", f"{self._tls}/tls.crt", "--tls-key-file", f"{self._tls}/tls.key",
        ]  # fmt: skip

    def _serves(self) -> bool:
        try:
            with socket.create_connection(("127.0.0.1", self.port), timeout=1) as connection:
                if self._tls is not None:
                    return True
                connection.sendall(b"PING\r\n")
                return connection.recv(64).startswith(b"+PONG")
        except OSError:
            return False


def _free_port() -> int:
    with socket.socket() as probe:
        probe.bind(("127.0.0.1", 0))
        return int(probe.getsockname()[1])
