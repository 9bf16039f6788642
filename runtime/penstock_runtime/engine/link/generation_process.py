"""The `process` placement of generation: an engine beside a busy event loop would wait for it at every step."""

import time
from collections.abc import Callable

from penstock_runtime.engine.continuous.limits import GenerationInfo, GenerationLimits
from penstock_runtime.engine.continuous.stepping import Step
from penstock_runtime.engine.link.handshake import BeginGeneration
from penstock_runtime.engine.link.process import ChildLink


class GenerationProcessLink(ChildLink[GenerationInfo]):
    """A `GenerationLink` whose engine loads and runs its model in a child process.

    `load` crosses to the child, so it is picklable.
    """

    child = "penstock_runtime.engine.link.generation_child"

    def __init__(
        self,
        load: Callable[[], Step],
        limits: GenerationLimits,
        *,
        depth: int = 0,
        clock: Callable[[], float] = time.monotonic,
    ) -> None:
        super().__init__(BeginGeneration(load, limits, depth), clock)
