"""What a step, or the inputs of its draws, come to: known at once, or when another thread has them.

Where nothing is waited for, a `Future` costs ten times what these do, twice a step.
"""

from typing import Generic, Never, Protocol, TypeVar

T = TypeVar("T")
T_co = TypeVar("T_co", covariant=True)


class Outcome(Protocol[T_co]):
    """What of `concurrent.futures.Future` the loop needs."""

    def result(self) -> T_co:
        """Wait for it, and return it or raise what was raised."""


class Known(Generic[T]):
    """It is there."""

    __slots__ = ("_value",)

    def __init__(self, value: T) -> None:
        self._value = value

    def result(self) -> T:
        """As `Outcome.result`."""
        return self._value


class Raised:
    """There will be none."""

    __slots__ = ("_error",)

    def __init__(self, error: Exception) -> None:
        self._error = error

    def result(self) -> Never:
        """As `Outcome.result`."""
        raise self._error
