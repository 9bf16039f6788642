"""The operator as a process of its own: what it uses, and what it tells of itself."""

import os
import subprocess
import sys
import time
import urllib.request
from collections.abc import Mapping
from dataclasses import dataclass, field
from pathlib import Path

PORT = 18080
IMAGE = "localhost/pretended:1"
"""Of the pods, that nobody pulls."""
TICKS = os.sysconf("SC_CLK_TCK")
PREFIX = "penstock_operator_"


@dataclass(frozen=True)
class OperatorMetrics:
    """The operator's own metrics at one time, added up over labels, and what the kernel says of the process."""

    at: float
    """Monotonic seconds."""
    figures: Mapping[str, float]
    cpu_seconds: float
    resident_megabytes: float
    last_decisions: tuple[float, ...]
    """When each pool was last decided on, in Unix seconds."""

    @property
    def pools(self) -> int:
        """How many pools it has decided on."""
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
        """Start it; it needs a while."""
        environ = {key: one for key, one in os.environ.items() if not key.startswith("PENSTOCK_")}
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
        """End it; its Lease is given back."""
        if self._process is not None:
            self._process.terminate()
            self._process.wait(timeout=60)
            self._process = None

    def tell(self) -> OperatorMetrics | None:
        """Return how it is doing; None while it does not answer."""
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
    """Return the sum over labels of each series of an exposition, and when each pool was last decided on.

    By lines: a parser would keep the machine busy for seconds that are to be measured.
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
