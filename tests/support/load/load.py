"""The generator as a process of its own, driven from a test or the demo."""

import asyncio
import sys
from collections.abc import Callable, Sequence
from dataclasses import dataclass, field
from pathlib import Path
from typing import Self

from tests.support.load.report import Report

ROOT = Path(__file__).parents[3]


class LoadFailed(RuntimeError):
    """The generator itself ended without a final report: nothing it said can be trusted."""


@dataclass(slots=True)
class Load:
    """`async with Load(url, model, rate=20) as load:` sends until the block ends, then `load.final` tells.

    `runner` is what runs Python where the traffic starts: this interpreter, or
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
        await self._say(f"rate {rate}")
        self.rate = rate

    async def finish(self) -> Report:
        """Stop sending, wait for what is in flight, and return the final report.

        Raises:
            LoadFailed: the generator died.
        """
        assert self._process
        assert self._reading
        if not self._reading.done():
            await self._say("stop")
        await self._reading
        await self._process.wait()
        return self.final

    async def next(self) -> Report:
        """Wait for and return the next report."""
        assert self._reading
        known = len(self.reports)
        while len(self.reports) == known:
            if self._reading.done():
                raise LoadFailed("the load generator ended early; its stderr says why")
            await asyncio.sleep(0.05)
        return self.reports[-1]

    @property
    def latest(self) -> Report:
        """Return the newest report."""
        return self.reports[-1]

    @property
    def final(self) -> Report:
        """Return the last report of all.

        Raises:
            LoadFailed: there is none.
        """
        if not self.reports or not self.reports[-1].final:
            raise LoadFailed("the load generator gave no final report; its stderr says why")
        return self.reports[-1]

    def _options(self) -> list[str]:
        options = {
            "--url": self.url, "--model": self.model, "--rate": self.rate, "--clients": self.clients,
            "--seed": self.seed, "--rows": self.rows, "--timeout": self.timeout,
            "--arrivals": "constant" if self.constant else "poisson",
        }  # fmt: skip
        flat = [str(part) for pair in options.items() for part in pair]
        return flat if self.keep_alive else [*flat, "--no-keep-alive"]

    async def _say(self, line: str) -> None:
        assert self._process
        assert self._process.stdin
        self._process.stdin.write(f"{line}\n".encode())
        await self._process.stdin.drain()

    async def _read(self) -> None:
        assert self._process
        assert self._process.stdout
        async for line in self._process.stdout:
            one = Report.from_line(line)
            self.reports.append(one)
            if self.on_report:
                self.on_report(one)
