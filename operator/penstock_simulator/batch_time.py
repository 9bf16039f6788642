"""`ServiceModel`: simulated batch time, a line, a line after a knee or a staircase, with random variation. Times are seconds."""

from dataclasses import dataclass
from math import ceil

import numpy as np

from penstock_simulator.pods.step_time import StepModel

BLOCK = 1024


@dataclass(frozen=True, slots=True)
class ServiceModel:
    """The true service curve of every pod, which laws do not know."""

    a: float
    """Time of a batch of up to `knee` rows."""
    c: float
    """Additional time of each row above `knee`."""
    sigma: float = 0.03
    """Standard deviation of the logarithm of batch time; 0: batches of one size all take the same time."""
    tail_share: float = 0.002
    """Share of batches that other load on the machine delays."""
    tail_factor: float = 1.5
    overhead: float = 0.005
    """Time of a request in network and codec, in addition to queue and batch."""
    knee: int = 0
    """Rows up to which a batch takes the same time; 0: the curve is a line from the first row on."""
    stair: int = 1
    """Rows above the knee that take as much time as the last of them: a device computes tiles of this size."""

    def seconds(self, rows: float) -> float:
        """Return t(rows), the median time of a batch."""
        return self.a + self.c * self.stair * ceil(max(rows - self.knee, 0) / self.stair)

    def capacity(self, rows: float) -> float:
        """Return mu(rows), in rows per second of one replica that only runs full batches."""
        return rows / self.seconds(rows)

    @property
    def exact(self) -> bool:
        """Whether batch times are deterministic."""
        return self.sigma <= 0 and self.tail_share <= 0


class Noise:
    """Factors on batch times, drawn in blocks."""

    __slots__ = ("_factors", "_model", "_next", "_random")

    def __init__(self, model: ServiceModel | StepModel, random: np.random.Generator) -> None:
        self._model = model
        self._random = random
        self._factors: list[float] = []
        self._next = 0

    def factor(self) -> float:
        """Return the next factor; its median is 1."""
        if self._next >= len(self._factors):
            self._draw()
        self._next += 1
        return self._factors[self._next - 1]

    def _draw(self) -> None:
        model = self._model
        drawn = np.exp(model.sigma * self._random.standard_normal(BLOCK))
        slow = self._random.random(BLOCK) < model.tail_share
        self._factors = np.where(slow, drawn * model.tail_factor, drawn).tolist()
        self._next = 0
