"""`LiveLimits`: the limits accepted from the control API or the mounted ConfigMap, those in force, and the reported state.

The ConfigMap is the slower source; both use the same generations. Its file is read before the pod knows its envelope
and a rejection reaches no client, so limits beyond the envelope apply as far as memory allows.
"""

import asyncio
import logging
from collections.abc import Callable
from pathlib import Path

from msgspec.structs import asdict
from pydantic import ValidationError

from penstock_api.pod_contract import (
    MAX_BATCH_SIZE,
    MAX_QUEUE_DELAY_MILLISECONDS,
    MAX_QUEUE_DEPTH,
    CurveSums,
    Discipline,
    Envelope,
    LimitsUpdate,
    PodLoad,
    Range,
    State,
)
from penstock_runtime.engine.messages import EngineReport, SetLimits
from penstock_runtime.engine.model import ModelInfo
from penstock_runtime.engine.service_time import UNKNOWN, ServiceTime, fit
from penstock_runtime.errors import PenstockError

log = logging.getLogger(__name__)

WATCH_SECONDS = 2.0
"""Interval of reading the file; the kubelet takes up to a minute to update a mounted ConfigMap."""

FIRST_LIMITS = LimitsUpdate(
    generation=0,
    max_batch_size=64,
    max_queue_depth=2048,
    max_queue_delay_milliseconds=5,
    discipline=Discipline.PRIORITY,
)
"""Limits until a settings file or the control API sets others: the built-in values of docs/design/design.md#precedence."""

ENVELOPE = Envelope(
    max_batch_size=Range(min=1, max=MAX_BATCH_SIZE),
    max_queue_depth=Range(min=1, max=MAX_QUEUE_DEPTH),
    max_queue_delay_milliseconds=Range(min=0, max=MAX_QUEUE_DELAY_MILLISECONDS),
)
"""A batch size beyond this pod's memory is accepted and clamped; `effectiveMax` reports the result."""


class GenerationConflict(PenstockError):
    """Limits whose generation is older than the accepted one, or equal with other content."""

    def __init__(self, message: str, generation: int) -> None:
        super().__init__(message)
        self.generation = generation


class LiveLimits:
    """Owns the limits of this pod: accepted ones are sent to the engine, and its reports acknowledge them."""

    def __init__(self, first: LimitsUpdate, send: Callable[[SetLimits], None]) -> None:
        self._send = send
        self._sent = {first.generation: first}
        self._reported = asyncio.Event()
        self.accepted = first
        self.in_force = first
        self.report: EngineReport | None = None
        self._service_time: ServiceTime | None = None
        """Line fitted to the last report; computed on demand."""
        self._effective_cap: int | None = None
        """Effective cap by the last report; computed on demand."""

    def accept(self, update: LimitsUpdate) -> None:
        """Send `update` to the engine; repeating an update changes nothing.

        Raises:
            GenerationConflict: it is older than what was accepted, or differs under the same generation.
        """
        accepted = self.accepted
        if update == accepted:
            return
        if update.generation <= accepted.generation:
            relation = (
                "older than" if update.generation < accepted.generation else "other limits under"
            )
            raise GenerationConflict(
                f"generation {update.generation} brings {relation} the {accepted.generation} that this pod"
                " holds: send a higher generation",
                accepted.generation,
            )
        self.accepted = update
        self._sent[update.generation] = update
        self._send(SetLimits(update))

    def deliver(self, report: EngineReport) -> None:
        """Record a report of the engine, which acknowledges the limits of its next batch."""
        self.report = report
        self._service_time = self._effective_cap = None
        if report.generation in self._sent and report.generation != self.in_force.generation:
            self.in_force = self._sent[report.generation]
            self._sent = {
                generation: update
                for generation, update in self._sent.items()
                if generation >= report.generation
            }
        self._reported.set()

    async def acknowledged(self, generation: int, within_seconds: float) -> bool:
        """Wait until the engine acknowledges `generation` or a newer one; return whether it did in time."""
        try:
            async with asyncio.timeout(within_seconds):
                while self.in_force.generation < generation:
                    self._reported.clear()
                    await self._reported.wait()
        except TimeoutError:
            return False
        return True

    @property
    def cap_bound(self) -> int:
        """The largest batch that memory allows, in rows; the maximum of the API before the first report."""
        bound = self.report.batch_cap_bound if self.report else MAX_BATCH_SIZE
        return min(max(bound, 1), MAX_BATCH_SIZE)

    @property
    def effective_cap(self) -> int:
        """The cap in force, clamped to memory."""
        if self._effective_cap is None:
            self._effective_cap = min(self.in_force.max_batch_size, self.cap_bound)
        return self._effective_cap

    @property
    def curve(self) -> CurveSums:
        """The service-curve sums as last reported."""
        return CurveSums(**asdict(self.report.curve)) if self.report else CurveSums()

    @property
    def service_time(self) -> ServiceTime:
        """The service time fitted to the reported sums."""
        if self._service_time is None:
            self._service_time = fit(self.report.curve) if self.report else UNKNOWN
        return self._service_time

    def state(self, load: PodLoad, model: ModelInfo, envelope: Envelope) -> State:
        """Return the response of `GET /control/v1/state`."""
        return State(
            generation=self.in_force.generation,
            limits=self.in_force.limits(),
            envelope=envelope,
            effective_max=self.cap_bound,
            converging=self.report.converging if self.report else False,
            surplus=self.report.surplus if self.report else None,
            load=load,
            curve=self.curve,
            model=model.name,
            backend=model.backend,
            model_backend=model.model_backend,
        )


def first_limits(path: Path) -> LimitsUpdate:
    """Return the limits in the file, or the built-in limits without a readable file."""
    update = read_limits(path)
    if update is None:
        log.info("no limits in %s: the built-in limits apply", path)
    return update or FIRST_LIMITS


def read_limits(path: Path) -> LimitsUpdate | None:
    """Return the limits in the file; None where it is absent or broken, which is logged."""
    try:
        return LimitsUpdate.model_validate_json(path.read_bytes())
    except FileNotFoundError:
        return None
    except (OSError, ValidationError) as error:
        log.error("the limits in %s cannot be used: %s", path, error)
        return None


async def watch_limits(path: Path, live: LiveLimits, every_seconds: float = WATCH_SECONDS) -> None:
    """Apply the file's limits whenever their generation is newer than the accepted one; never returns."""
    while True:
        update = await asyncio.to_thread(read_limits, path)
        if update is not None and update.generation > live.accepted.generation:
            _apply(live, update)
        await asyncio.sleep(every_seconds)


def _apply(live: LiveLimits, update: LimitsUpdate) -> None:
    try:
        live.accept(update)
        log.info("limits taken from the settings file", extra={"generation": update.generation})
    except GenerationConflict as conflict:
        log.info("limits in the settings file are behind: %s", conflict)
