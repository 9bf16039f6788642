"""Laws that only follow a plan: a fixed count, or a count for every slot of time. Pure."""

from collections.abc import Sequence

from penstock_operator.decide.scaling.law import Decision, LawInput
from penstock_simulator.baselines.inputs import decided


class Planned:
    """`counts[i]` replicas in the i-th slot after the first step; the last count stays."""

    def __init__(self, name: str, counts: Sequence[int], slot_seconds: float, cap: int | None = None) -> None:  # fmt: skip
        self.name = name
        self._counts = counts
        self._slot = slot_seconds
        self._cap = cap

    def initial(self, now: float) -> float:
        """Return the start time of the plan."""
        return now

    def step(self, state: float, observed: LawInput, now: float) -> tuple[float, Decision]:
        """Return the count planned for `now`."""
        index = min(int((now - state) / self._slot), len(self._counts) - 1)
        return state, decided(observed, self._counts[index], self._cap)


def fixed(replicas: int, cap: int | None = None) -> Planned:
    """Return the law that always requests `replicas`."""
    return Planned(f"fixed-{replicas}", (replicas,), 1.0, cap)
