"""The operator process of the scale bench, with its resource usage and its metrics."""

import os
import subprocess
import sys
import time
import urllib.request
from collections.abc import Mapping
from dataclasses import dataclass, field
from pathlib import Path

PORT = 18080
IMAGE = "localhost/fake:1"
"""Image of the pods, which is never pulled."""
TICKS = os.sysconf("SC_CLK_TCK")
PREFIX = "penstock_operator_"


@dataclass(frozen=True)
class OperatorMetrics:
    """The operator's metrics at one time, summed over labels, and its resource usage according to the kernel."""

    at: float
    """Monotonic seconds."""
    figures: Mapping[str, float]
    cpu_seconds: float
    resident_megabytes: float
    last_decisions: tuple[float, ...]
    """Time of each pool's last decision, in Unix seconds."""

    @property
    def pools(self) -> int:
        """Number of pools with a decision."""
        return len(self.last_decisions)


@dataclass
class ScaleOperator:
    """One operator process."""

    kubeconfig: Path
    namespace: str
    folder: Path
    _process: "subprocess.Popen[bytes] | None" = None
    _opener: urllib.request.OpenerDirector = field(
        default_factory=lambda: urllib.request.build_opener(urllib.request.ProxyHandler({}))
    )

    def start(self) -> None:
        """Start the process, without a wait for readiness."""
        environ = {
            key: value for key, value in os.environ.items() if not key.startswith("PENSTOCK_")
        }
        environ |= {
            "KUBECONFIG": str(self.kubeconfig),
            "PENSTOCK_NAMESPACE": self.namespace,
            "PENSTOCK_DEFAULT_RUNTIME_IMAGE": IMAGE,
            "PENSTOCK_POD_NAME": "bench",
            "PENSTOCK_PORT": str(PORT),
        }
        with (self.folder / "operator.log").open("ab") as log:
            self._process = subprocess.Popen(
                (sys.executable, "-m", "penstock_operator"), env=environ, stdout=log, stderr=log
            )

    def stop(self) -> None:
        """End the process, which releases its Lease."""
        if self._process is not None:
            self._process.terminate()
            self._process.wait(timeout=60)
            self._process = None

    def scrape(self) -> OperatorMetrics | None:
        """Return its metrics, or None while it does not answer."""
        assert self._process is not None
        if self._process.poll() is not None:
            text = (self.folder / "operator.log").read_text()[-3000:]
            raise RuntimeError(f"the operator ended:\n{text}")
        try:
            with self._opener.open(f"http://127.0.0.1:{PORT}/metrics", timeout=60) as answer:
                text = answer.read().decode()
        except OSError:
            return None
        figures, decided = added_up(text)
        cpu, resident = _usage(self._process.pid)
        return OperatorMetrics(time.monotonic(), figures, cpu, resident, decided)


def added_up(text: str) -> tuple[dict[str, float], tuple[float, ...]]:
    """Return the sum over labels of each series of an exposition, and the time of each pool's last decision.

    The text is split by lines, because a full parser would use seconds of processor time during the measurement.
    """
    figures: dict[str, float] = {}
    decided = []
    for line in text.splitlines():
        if not line.startswith(PREFIX):
            continue
        name, number = line.partition("{")[0].partition(" ")[0], float(line.rpartition(" ")[2])
        name = name.removeprefix(PREFIX)
        figures[name] = figures.get(name, 0.0) + number
        if name == "last_decision_timestamp_seconds":
            decided.append(number)
    return figures, tuple(decided)


def _usage(pid: int) -> tuple[float, float]:
    """Return CPU seconds and resident megabytes (proc(5))."""
    fields = Path(f"/proc/{pid}/stat").read_text().rpartition(")")[2].split()
    pages = int(Path(f"/proc/{pid}/statm").read_text().split()[1])
    return (int(fields[11]) + int(fields[12])) / TICKS, pages * os.sysconf("SC_PAGE_SIZE") / 1e6
