"""Decode of this engine on a device, measured for `make gpu`: the share of the memory bandwidth that a step's reads use.

Those are all weights and the rows' keys and values; the bandwidth is a copy's, in the same run.
"""

from dataclasses import dataclass

from penstock_runtime.engine.continuous.messages import Stepped, StepReport
from tests.bench.generation import models
from tests.bench.generation.peers import penstock
from tests.bench.generation.roofline import Decoding, Footprint, decoding
from tests.bench.generation.workload import Work, WorkSize, work

BATCHES = (1, 8, 64)


class RecordedPeer(penstock.Peer):
    """This project's engine, which records the steps of its last work."""

    def run(self, work: Work) -> float:
        """Run the work and record its steps."""
        self.steps: list[StepReport] = []
        return super().run(work)

    def _take(self, stepped: Stepped) -> None:
        super()._take(stepped)
        if stepped.step is not None:
            self.steps.append(stepped.step)


@dataclass(frozen=True)
class Line:
    """Figures of one batch size."""

    batch: int
    decoding: Decoding | None
    """None: no step decoded all rows."""
    share_of_bandwidth: float | None
    tokens_per_second: float
    """Rate over the whole work including prompts, like the peer's."""


def line(
    ours: RecordedPeer, batch: int, size: WorkSize, read: Footprint, gb_per_second: float
) -> Line:
    """Measure this project's engine at `batch`."""
    requested = work("decode", batch, models.VOCABULARY, size)
    ours.run(requested)  # every shape's first step is its slowest
    best = min(ours.run(requested) for _ in range(size.repeats))
    decoded = decoding(ours.steps, batch, read)
    share = decoded.gb_per_second / gb_per_second if decoded else None
    return Line(batch, decoded, share, requested.counted / best)
