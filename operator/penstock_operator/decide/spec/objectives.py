"""`Target`: the latency and the percentage of one objective, as one value of the flat live fields. Pure.

An objective is merged, compared and rolled back as a whole. At the built-in 99 percent its value is the integer of
milliseconds, as stored records and annotations of earlier releases have it; at another one it is `500@99.9`.
"""

from dataclasses import dataclass
from fractions import Fraction

from penstock_api.types.objectives import DEFAULT_PERCENT, Objective

LATE_SHARE = 0.01
"""Share of requests that may miss an objective of the built-in 99 percent, for which the laws are tuned."""


@dataclass(frozen=True, slots=True)
class Target:
    """A limit of latency, and the percentage of requests that must be within it."""

    milliseconds: int
    percent: int | str = DEFAULT_PERCENT
    """An integer, or a decimal string."""

    @classmethod
    def of(cls, objective: Objective) -> "Target":
        """Return the target of an objective."""
        percent = objective.percent
        return cls(objective.milliseconds, DEFAULT_PERCENT if percent is None else percent)

    @classmethod
    def read(cls, value: int | str) -> "Target":
        """Return the target of a live field's value.

        Raises:
            ValueError: the value is not one of `as_field`.
        """
        milliseconds, _, percent = str(value).partition("@")
        if not percent:
            return cls(int(milliseconds))
        return cls(int(milliseconds), percent if "." in percent else int(percent))

    def as_field(self) -> int | str:
        """Return the target as the value of a live field."""
        plain = self.percent == DEFAULT_PERCENT
        return self.milliseconds if plain else f"{self.milliseconds}@{self.percent}"

    @property
    def late_share(self) -> float:
        """Return the share of requests that may miss the objective, 0 to 1."""
        return float(1 - Fraction(self.percent) / 100)

    def admits(self, other: "Target") -> bool:
        """Return whether every pool that meets `other` meets this target too."""
        return self.milliseconds >= other.milliseconds and self.late_share >= other.late_share

    def __str__(self) -> str:
        """Return the target as text."""
        return f"{self.milliseconds} ms for {self.percent} %"
