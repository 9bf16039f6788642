"""What passes between an engine's process and its parent before and around the messages of `engine/messages.py`."""

from collections.abc import Callable
from dataclasses import dataclass

from penstock_api.limits import LimitsUpdate
from penstock_runtime.engine.continuous.interfaces import StepExecutor
from penstock_runtime.engine.continuous.limits import GenerationInfo, GenerationLimits
from penstock_runtime.engine.link.heartbeat import PULSE_BYTES
from penstock_runtime.engine.model import Model, ModelInfo

TO_ENGINE_BYTES = 256 * 2**20
FROM_ENGINE_BYTES = 256 * 2**20
"""Of address space, not of memory: only what is in flight at once is ever touched. What finds no room goes
through the socket."""

MEMORY_BYTES = PULSE_BYTES + TO_ENGINE_BYTES + FROM_ENGINE_BYTES
TO_ENGINE = (PULSE_BYTES, TO_ENGINE_BYTES)
FROM_ENGINE = (PULSE_BYTES + TO_ENGINE_BYTES, FROM_ENGINE_BYTES)


@dataclass(frozen=True, slots=True)
class Start:
    """Parent to child, first: load this under these limits. `load` is picklable: a function by its name."""

    load: Callable[[], Model]
    limits: LimitsUpdate


@dataclass(frozen=True, slots=True)
class StartGeneration:
    """The same for an engine that generates."""

    load: Callable[[], StepExecutor]
    limits: GenerationLimits
    depth: int


@dataclass(frozen=True, slots=True)
class Loaded:
    """Child to parent: the model is warm."""

    info: ModelInfo | GenerationInfo


@dataclass(frozen=True, slots=True)
class NotLoaded:
    """Child to parent, its last word: why the model cannot be served."""

    reason: str
