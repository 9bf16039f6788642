"""`PARTS`: the parts of the run in order of value, with their time limits, and the `Setting` that they run in."""

from dataclasses import dataclass
from pathlib import Path
from typing import TYPE_CHECKING, TypeVar

if TYPE_CHECKING:  # the plan is read before anything heavy is known to be there
    import torch

T = TypeVar("T")

FOLDER = Path(__file__).parents[2] / "build" / "gpu"
"""Of the results, unless another is given."""
REHEARSAL_SECONDS = 600.0
"""Limit of each part of a rehearsal, on a machine that may be busy."""
FOUND_SECONDS = 45.0
"""Limit of the first look at the machine, which also reads torch and transformers from the disk for the first time."""
RUN_SECONDS = 540.0
"""Limit of the whole run; no part starts after it."""
LEAST_SECONDS = 5.0
"""No part starts with less time than this."""


@dataclass(frozen=True, slots=True)
class Part:
    """One part of the run: the module `tests.gpu.parts.NAME`, in a process of its own."""

    name: str
    title: str
    seconds: float
    """Its time limit on a device."""
    gibibytes: float
    """Free device memory that it needs."""


PARTS = (
    Part("exactness", "generation: exact on the device, recorded steps included", 85, 4),
    Part("generation", "generation: bandwidth, peers, prefill, attention", 120, 16),
    Part("one_shot", "one-shot batches: memory, transfers, graphs, rates", 75, 8),
    Part("served", "the pod as served: streams, overload, ends", 100, 16),
    Part("law", "the law's inputs: the service curve and what it predicts", 45, 4),
    Part("nvml", "duty and memory by NVML", 30, 2),
    Part("shared", "two models on one card", 35, 16),
)


@dataclass(frozen=True, slots=True)
class Setting:
    """Where a part runs, and how much it does."""

    device: "torch.device"
    rehearsal: bool
    """Tiny sizes, on any machine: the same code, without targets for speed."""
    folder: Path
    """Of the results."""
    deadline: float
    """Monotonic seconds at which the part is cut off."""

    def size(self, whole: T, rehearsed: T) -> T:
        """Return the size of a measurement on a device, or in a rehearsal."""
        return rehearsed if self.rehearsal else whole

    @property
    def models(self) -> Path:
        """Folder of the models of random weights that several parts share."""
        return self.folder / "models"

    @property
    def on_cuda(self) -> bool:
        """Whether there is a device."""
        return self.device.type == "cuda"


def budget() -> float:
    """Return the sum of all limits in seconds."""
    return FOUND_SECONDS + sum(part.seconds for part in PARTS)
