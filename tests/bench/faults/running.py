"""Runs one fault: preparation, injection, healing and recovery under load."""

import time
from dataclasses import dataclass

from urllib3.exceptions import HTTPError

from tests.bench.faults.fault import Fault
from tests.bench.faults.outcome import ServedLoad, Suffered
from tests.bench.faults.stage import FaultStage
from tests.bench.faults.watching import watching
from tests.support.kube.api import ApiError
from tests.support.kube.pools import until
from tests.support.kube.target import ProgramFailedError
from tests.support.load.load import Load
from tests.support.load.report import Report

PATIENCE_SECONDS = 120
RECOVERY_SECONDS = 120
SLOWER = 3.0
"""Clients are served as usual if p99 and requests in flight are below this multiple of the usual values."""


@dataclass(slots=True)
class Making:
    """Injects and heals a fault under a continuous load, and measures the recovery."""

    stage: FaultStage
    fault: Fault
    load: Load
    usual: Report
    """A report of the load without faults."""
    restarts: int = 0

    def run(self) -> Suffered:
        """Run the fault and return its record."""
        recovered, trouble = None, ""
        with watching(self.stage.pool) as seen:
            first = len(self.load.reports) - 1
            try:
                with self.fault.prepare(self.stage):
                    until("all is as usual", lambda: self._well(0), seconds=PATIENCE_SECONDS)
                    recovered = self._suffer()
            except (AssertionError, ApiError, HTTPError, ProgramFailedError) as error:
                trouble = str(error)
        served = ServedLoad.between(self.load.reports[first:])
        moves = tuple(seen.changes)
        return Suffered(self.fault, served, moves, recovered, self.restarts, trouble)

    def _suffer(self) -> float:
        """Return the seconds until recovery."""
        with self.fault.inject(self.stage):
            began = time.monotonic()
            self._edit_amid()
            time.sleep(self.fault.seconds)
        if self.fault.seconds:
            began = time.monotonic()
        after = self.stage.edit()
        until("all is as usual", lambda: self._well(after), seconds=RECOVERY_SECONDS)
        return round(time.monotonic() - began, 1)

    def _edit_amid(self) -> None:
        """Make a live edit during the fault; if it fails, the edit after the fault still counts."""
        try:
            self.stage.edit()
        except (ApiError, HTTPError) as error:
            print(f"{self.fault.name}: no edit meanwhile: {error}")

    def _well(self, after: int) -> bool | str:
        if not self.stage.operator.running:  # as its Deployment would
            self.restarts += 1
            self.stage.operator.start()
        try:
            wrong = self.stage.not_as_wanted(after)
        except (ApiError, HTTPError, OSError) as error:
            return str(error)
        return wrong or _as_usual(self.load.latest, self.usual)


def _as_usual(now: Report, usual: Report) -> bool | str:
    """Return True if clients are served as usual, else the difference."""
    if now.p99 is None or usual.p99 is None:
        return "nothing is answered"
    if now.in_flight > SLOWER * usual.in_flight:
        return f"{now.in_flight} requests in flight, usual are {usual.in_flight}"
    return now.p99 < SLOWER * usual.p99 or f"p99 is {now.p99:.0f} ms, usual is {usual.p99:.0f} ms"
