"""The operator as a process on this machine, from this checkout's sources."""

import socket
import subprocess
import sys
import urllib.error
import urllib.request
from collections.abc import Iterator, Mapping
from contextlib import contextmanager
from pathlib import Path
from signal import SIGKILL, SIGTERM, Signals

from tests.support.environment import inherited
from tests.support.kube.pools import until

IMAGE = "localhost/penstock-busybox:1"
"""Default image of pods, which need not serve unless the settings name another."""


class OperatorProcess:
    """An operator process that can be restarted, always of the same installation."""

    def __init__(
        self,
        kubeconfig: Path,
        namespace: str,
        folder: Path,
        name: str = "operator",
        settings: Mapping[str, str] | None = None,
    ) -> None:
        self.port = free_port()
        self.namespace = namespace
        self._name = name
        self._kubeconfig = kubeconfig
        self._folder = folder
        self._log = folder / f"{name}.log"
        self._process: subprocess.Popen[bytes] | None = None
        self.settings = dict(settings or {})
        """Additional environment variables."""
        self.command = [sys.executable, "-m", "penstock_operator"]

    def start(self) -> None:
        """Start the process and wait until it is ready."""
        self._process = self._launch()
        until("the operator is ready", self._ready, seconds=90)

    def run_to_its_end(self) -> int:
        """Start the process and return its exit status once it ends on its own."""
        return self._launch().wait(timeout=120)

    def _launch(self) -> subprocess.Popen[bytes]:
        environ = inherited() | {
            "KUBECONFIG": str(self._kubeconfig),
            "PENSTOCK_NAMESPACE": self.namespace,
            "PENSTOCK_DEFAULT_RUNTIME_IMAGE": IMAGE,
            "PENSTOCK_POD_NAME": self._name,
            "PENSTOCK_PORT": str(self.port),
            "OMP_NUM_THREADS": "1",
            **self.settings,
        }
        with self._log.open("ab") as log:
            return subprocess.Popen(self.command, env=environ, stderr=log, stdout=log)

    def replica(self, name: str) -> "OperatorProcess":
        """Return another process of the same installation, not started."""
        return OperatorProcess(self._kubeconfig, self.namespace, self._folder, name)

    def as_user(self, name: str, kubeconfig: Path) -> "OperatorProcess":
        """Return another process with other credentials, not started."""
        return OperatorProcess(kubeconfig, self.namespace, self._folder, name)

    def send(self, number: Signals) -> None:
        """Send a signal to the process."""
        assert self._process is not None
        self._process.send_signal(number)

    def stop(self, number: Signals = SIGTERM) -> int:
        """End the process and return its exit status."""
        assert self._process is not None
        self._process.send_signal(number)
        status = self._process.wait(timeout=40)
        self._process = None
        return status

    def restart_killed(self) -> None:
        """Kill the process with SIGKILL, and start it again without waiting."""
        self.stop(SIGKILL)
        self._process = self._launch()

    @contextmanager
    def down(self) -> Iterator[None]:
        """Stop the process with SIGTERM inside the context, as Kubernetes does."""
        assert self.stop() == 0, f"its log:\n{self.log()[-2000:]}"
        yield
        self.start()

    def get(self, path: str) -> str:
        """Return a page of the operator's HTTP port."""
        with urllib.request.urlopen(f"http://127.0.0.1:{self.port}{path}", timeout=5) as answer:
            text: str = answer.read().decode()
            return text

    def log(self) -> str:
        """Return everything logged so far."""
        return self._log.read_text()

    @property
    def running(self) -> bool:
        """Whether a process was started and has not ended."""
        return self._process is not None and self._process.poll() is None

    def _ready(self) -> bool | str:
        if not self.running:
            raise AssertionError(f"the operator ended:\n{self.log()[-3000:]}")
        try:
            return bool(self.get("/readyz"))
        except (urllib.error.URLError, OSError) as error:
            return str(error)


def free_port() -> int:
    """Return a TCP port that is not in use."""
    with socket.socket() as probe:
        probe.bind(("127.0.0.1", 0))
        port: int = probe.getsockname()[1]
        return port
