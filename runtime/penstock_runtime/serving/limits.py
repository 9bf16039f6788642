"""The live limits: what was accepted, what is in force, and the state that is told about both."""

import asyncio
from collections.abc import Callable

from msgspec.structs import asdict

from penstock_api.limits import (
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

FIRST_LIMITS = LimitsUpdate(
    generation=0,
    max_batch_size=64,
    max_queue_depth=2048,
    max_queue_delay_milliseconds=5,
    discipline=Discipline.PRIORITY,
)
"""Obeyed until a settings file or the control API says otherwise: the built-in values of docs/design/design.md#precedence."""

ENVELOPE = Envelope(
    max_batch_size=Range(min=1, max=MAX_BATCH_SIZE),
    max_queue_depth=Range(min=1, max=MAX_QUEUE_DEPTH),
    max_queue_delay_milliseconds=Range(min=0, max=MAX_QUEUE_DELAY_MILLISECONDS),
)
"""A batch size above this pod's memory is accepted and clamped: `effectiveMax` says so."""


class GenerationConflict(PenstockError):
    """Limits under a generation that this pod has left behind, or knows with other content."""

    def __init__(self, message: str, held: int) -> None:
        super().__init__(message)
        self.held = held


class LiveLimits:
    """Owns the limits of this pod; the engine obeys what is sent here, and its reports say since when."""

    def __init__(self, first: LimitsUpdate, send: Callable[[SetLimits], None]) -> None:
        self._send = send
        self._sent = {first.generation: first}
        self._obeyed = asyncio.Event()
        self.accepted = first
        self.in_force = first
        self.report: EngineReport | None = None
        self._service_time: ServiceTime | None = None
        """As fitted to the report, once somebody asks."""
        self._effective_cap: int | None = None
        """As the report has it, once somebody asks."""

    def accept(self, update: LimitsUpdate) -> None:
        """Hand `update` to the engine; the same update again changes nothing.

        Raises:
            GenerationConflict: it is older than what was accepted, or differs under the same generation.
        """
        held = self.accepted
        if update == held:
            return
        if update.generation <= held.generation:
            relation = "older than" if update.generation < held.generation else "other limits under"
            raise GenerationConflict(
                f"generation {update.generation} brings {relation} the {held.generation} that this pod"
                " holds: send a higher generation",
                held.generation,
            )
        self.accepted = update
        self._sent[update.generation] = update
        self._send(SetLimits(update))

    def deliver(self, report: EngineReport) -> None:
        """Take the engine's word on what the next batch obeys."""
        self.report = report
        self._service_time = self._effective_cap = None
        if report.generation in self._sent and report.generation != self.in_force.generation:
            self.in_force = self._sent[report.generation]
            self._sent = {g: one for g, one in self._sent.items() if g >= report.generation}
        self._obeyed.set()

    async def obeyed(self, generation: int, within_seconds: float) -> bool:
        """Wait until the engine obeys `generation` or newer; return whether it did in time."""
        try:
            async with asyncio.timeout(within_seconds):
                while self.in_force.generation < generation:
                    self._obeyed.clear()
                    await self._obeyed.wait()
        except TimeoutError:
            return False
        return True

    @property
    def cap_bound(self) -> int:
        """The largest batch that memory allows, in rows; the API's own bound before the first report."""
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
        """The line fitted to those sums."""
        if self._service_time is None:
            self._service_time = fit(self.report.curve) if self.report else UNKNOWN
        return self._service_time

    def state(self, load: PodLoad, model: ModelInfo, envelope: Envelope) -> State:
        """Return the answer to `GET /control/v1/state`."""
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
        )
