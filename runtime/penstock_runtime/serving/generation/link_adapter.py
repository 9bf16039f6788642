"""The face that a generation engine shows to the code that all pods share: limits, drain, heartbeat, death.

Shared code sends `link.messages` and reads `EngineReport`; a generation engine has words of its own for both.
"""

from collections.abc import Callable
from typing import Final

from penstock_api.limits import MAX_BATCH_SIZE
from penstock_runtime.engine.continuous.limits import GenerationInfo
from penstock_runtime.engine.continuous.messages import GenerationReport, Stepped
from penstock_runtime.engine.link.base import Heartbeat
from penstock_runtime.engine.link.generation import GenerationLink
from penstock_runtime.engine.messages import (
    Drain,
    EngineDied,
    EngineReport,
    FromEngine,
    SetLimits,
    Settled,
    ToEngine,
)
from penstock_runtime.engine.model import ModelInfo
from penstock_runtime.engine.service_time import ServiceTimeSums

PLATFORM: Final = "transformers"
"""As in Open Inference metadata."""


class Face:
    """An `EngineLink` in front of a `GenerationLink`; what it does not translate goes to `on_step`."""

    def __init__(self, link: GenerationLink, name: str, on_step: Callable[[Stepped], None]) -> None:
        self._link = link
        self._name = name
        self._on_step = on_step
        self.info: GenerationInfo | None = None
        """Set once `start` has returned."""

    async def start(self, deliver: Callable[[FromEngine], None]) -> ModelInfo:
        """As `EngineLink.start`."""

        def take(message: Stepped | EngineDied) -> None:
            if isinstance(message, Stepped):
                bound = self.info.cap_bound if self.info else MAX_BATCH_SIZE
                deliver(Settled((), None, engine_report(message.report, bound)))
                self._on_step(message)
            else:
                deliver(message)

        info = self.info = await self._link.start(take)
        return ModelInfo(self._name, PLATFORM, info.backend, (), (), max_rows=info.cap_bound)

    def send(self, message: ToEngine) -> None:
        """As `EngineLink.send`."""
        match message:
            case SetLimits() | Drain():
                self._link.send(message)
            case _:
                raise TypeError(f"{type(message).__name__} is for a one-shot engine")

    def set_more_coming_hint(self, coming: Callable[[], bool]) -> None:
        """As `EngineLink.set_more_coming_hint`: prompts join at every step."""

    def heartbeat(self) -> Heartbeat:
        """As `EngineLink.heartbeat`."""
        return self._link.heartbeat()

    def kill(self) -> None:
        """As `EngineLink.kill`."""
        self._link.kill()

    async def close(self) -> None:
        """As `EngineLink.close`."""
        await self._link.close()


def engine_report(report: GenerationReport, cap_bound: int) -> EngineReport:
    """Return what code that all pods share reads; the service curve has words of its own, and other readers."""
    return EngineReport(
        waiting=report.waiting,
        running=report.running_requests,
        generation=report.generation,
        converging=report.converging,
        batch_cap_bound=cap_bound,
        busy_seconds=report.busy_seconds,
        curve=ServiceTimeSums(),
        surplus=report.surplus,
    )
