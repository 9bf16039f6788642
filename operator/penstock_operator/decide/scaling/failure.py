"""A failed step of a control law, and the report that reproduces it. Pure."""

from collections.abc import Iterator
from dataclasses import dataclass
from reprlib import Repr
from traceback import walk_tb

from penstock_operator.decide.scaling.law import LawInput

MAX_ERROR, MAX_ARGUMENT, MAX_CALLS = 200, 400, 4
"""Characters of the error and of one argument, and calls, in a report."""


@dataclass(frozen=True, slots=True)
class LawFailure:
    """A step of a law that raised an exception."""

    law: str
    error: Exception
    times: int
    """Consecutive failures, including this one."""
    observed: LawInput
    now: float

    @property
    def summary(self) -> str:
        """Return the error in at most `MAX_ERROR` characters."""
        return f"{type(self.error).__name__}: {self.error}"[:MAX_ERROR]

    @property
    def place(self) -> str:
        """Return the exception type and the function that raised it: the same text for the same defect, whatever the figures."""
        frames = [frame for frame, _ in walk_tb(self.error.__traceback__)]
        where = frames[-1].f_code.co_qualname if frames else self.law
        return f"{type(self.error).__name__} in {where}"

    def report(self) -> dict[str, object]:
        """Return a bounded record that reproduces the failure: the law's input and the innermost calls."""
        observed = self.observed
        return {
            "law": self.law,
            "now": self.now,
            "settings": repr(observed.settings),
            "replicas": observed.replicas,
            "cap": observed.cap,
            "pods": len(observed.pods),
            "readyPods": sum(pod.ready for pod in observed.pods),
            "signals": observed.signals.source.value,
            "samples": len(observed.signals.samples),
            "calls": list(_calls(self.error))[-MAX_CALLS:],
        }


def _calls(error: Exception) -> Iterator[str]:
    """Return the calls that led to the error, each with its arguments."""
    short = Repr()
    short.maxother = short.maxstring = short.maxlong = MAX_ARGUMENT
    for frame, line in walk_tb(error.__traceback__):
        code = frame.f_code
        given = code.co_varnames[: code.co_argcount + code.co_kwonlyargcount]
        arguments = ", ".join(
            f"{name}={_shown(short, frame.f_locals[name])}"
            for name in given
            if name in frame.f_locals
        )
        yield f"{code.co_qualname}:{line}({arguments})"


def _shown(short: Repr, value: object) -> str:
    try:
        return short.repr(value)[:MAX_ARGUMENT]
    except Exception:  # noqa: BLE001 - a value that cannot show itself must not hide the error
        return type(value).__name__
