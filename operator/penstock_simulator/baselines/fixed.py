"""Laws that only follow a plan: a fixed count, or a count for every slot of time. Pure."""

from collections.abc import Sequence

from penstock_operator.decide.scaling.law import Decision, LawInput
from penstock_simulator.baselines.inputs import decided


class Planned:
    """`counts[i]` replicas in the i-th slot from the first step on; the last count stays."""

    def __init__(self, name: str, counts: Sequence[int], slot_seconds: float, cap: int | None = None) -> None:  # fmt: skip
        self.name = name
        self._counts = counts
        self._slot = slot_seconds
        self._cap = cap

    def initial(self, now: float) -> float:
        """Return the beginning of the plan."""
        return now

    def step(self, state: float, observed: LawInput, now: float) -> tuple[float, Decision]:
        """Return what the plan says for now."""
        index = min(int((now - state) / self._slot), len(self._counts) - 1)
        return state, decided(observed, self._counts[index], self._cap)


def fixed(replicas: int, cap: int | None = None) -> Planned:
    """Return the law that always wants `replicas`."""
    return Planned(f"fixed-{replicas}", (replicas,), 1.0, cap)
