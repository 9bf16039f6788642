"""The load generator as a separate process, driven from a test or the demo."""

import asyncio
import sys
from collections.abc import Callable, Sequence
from dataclasses import dataclass, field
from pathlib import Path
from typing import Self

from tests.support.load.report import Report

ROOT = Path(__file__).parents[3]


class LoadFailed(RuntimeError):
    """The generator exited without a final report, so its counts are incomplete."""


@dataclass(slots=True)
class Load:
    """`async with Load(url, model, rate=20) as load:` sends until the block ends; `load.final` is the result.

    `runner` is the Python command of the generator: this interpreter, or
    `("kubectl", "exec", "-i", POD, "--", "python3")` for a pod of a cluster whose Services this machine
    cannot reach.
    """

    url: str
    model: str
    rate: float = 0.0
    clients: int = 0
    keep_alive: bool = True
    constant: bool = False
    seed: int = 1
    rows: int = 1
    timeout: float = 60.0
    runner: Sequence[str] = (sys.executable,)
    on_report: Callable[[Report], None] | None = None
    reports: list[Report] = field(default_factory=list)
    _process: asyncio.subprocess.Process | None = None
    _reading: asyncio.Task[None] | None = None

    async def __aenter__(self) -> Self:
        self._process = await asyncio.create_subprocess_exec(
            *self.runner, "-m", "tests.support.load", "--commands", *self._options(),
            stdin=asyncio.subprocess.PIPE, stdout=asyncio.subprocess.PIPE, cwd=ROOT,
        )  # fmt: skip
        self._reading = asyncio.create_task(self._read())
        return self

    async def __aexit__(self, kind: object, error: object, trace: object) -> None:
        if kind is None:
            await self.finish()
        elif self._process and self._process.returncode is None:
            self._process.kill()
            await self._process.wait()

    async def set_rate(self, rate: float) -> None:
        """Send at `rate` requests a second from now on."""
        await self._command(f"rate {rate}")
        self.rate = rate

    async def finish(self) -> Report:
        """Stop sending, wait for the requests in flight, and return the final report.

        Raises:
            LoadFailed: the generator exited early.
        """
        assert self._process
        assert self._reading
        if not self._reading.done():
            await self._command("stop")
        await self._reading
        await self._process.wait()
        return self.final

    async def next(self) -> Report:
        """Wait for and return the next report."""
        assert self._reading
        known = len(self.reports)
        while len(self.reports) == known:
            if self._reading.done():
                raise LoadFailed("the load generator ended early; see its stderr")
            await asyncio.sleep(0.05)
        return self.reports[-1]

    @property
    def latest(self) -> Report:
        """Return the newest report."""
        return self.reports[-1]

    @property
    def final(self) -> Report:
        """Return the final report.

        Raises:
            LoadFailed: the generator has sent none.
        """
        if not self.reports or not self.reports[-1].final:
            raise LoadFailed("the load generator sent no final report; see its stderr")
        return self.reports[-1]

    def _options(self) -> list[str]:
        options = {
            "--url": self.url, "--model": self.model, "--rate": self.rate, "--clients": self.clients,
            "--seed": self.seed, "--rows": self.rows, "--timeout": self.timeout,
            "--arrivals": "constant" if self.constant else "poisson",
        }  # fmt: skip
        flat = [str(part) for pair in options.items() for part in pair]
        return flat if self.keep_alive else [*flat, "--no-keep-alive"]

    async def _command(self, line: str) -> None:
        assert self._process
        assert self._process.stdin
        self._process.stdin.write(f"{line}\n".encode())
        await self._process.stdin.drain()

    async def _read(self) -> None:
        assert self._process
        assert self._process.stdout
        async for line in self._process.stdout:
            report = Report.from_line(line)
            self.reports.append(report)
            if self.on_report:
                self.on_report(report)
