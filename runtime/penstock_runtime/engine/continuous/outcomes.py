"""What a step, or the inputs of its draws, come to: known at once, or when another thread has them.

A `Future` costs ten times what these do, twice a step.
"""

from collections.abc import Callable
from threading import Lock
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

    def __init__(self, error: BaseException) -> None:
        self._error = error

    def result(self) -> Never:
        """As `Outcome.result`."""
        raise self._error


class Coming(Generic[T]):
    """Another thread will call `make`, once."""

    __slots__ = ("_done", "_make", "_outcome")

    def __init__(self, make: Callable[[], T]) -> None:
        self._make = make
        self._outcome: Outcome[T]
        self._done = Lock()
        self._done.acquire()

    def make(self) -> None:
        """Make it, and let go whoever waits for it."""
        try:
            self._outcome = Known(self._make())
        except BaseException as error:  # noqa: BLE001  handed to whoever asks for the result
            self._outcome = Raised(error)
        self._done.release()

    def result(self) -> T:
        """As `Outcome.result`."""
        with self._done:
            return self._outcome.result()
