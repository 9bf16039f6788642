"""The steps of `make demo`, on one clock, with what each takes; standard library only."""

from collections.abc import Mapping
from dataclasses import dataclass

from tests.support.cluster.progress import say


@dataclass(frozen=True, slots=True)
class Step:
    """A step, and its seconds on two cores."""

    key: str
    title: str
    seconds: float


STEPS = (
    Step("check", "check this machine", 1),
    Step("make", "download, build", 0),  # its seconds depend on what is there: preparation.py
    Step("cluster", "start Kubernetes", 10),
    Step("install", "install Prometheus, the operator, and the sample pool with its gateway", 35),
    Step("show", "the show: load, edits, decisions", 330),
    Step("chat", "a chat with a pool that generates text, and kubectl penstock explain", 40),
)
SHOW = [step.key for step in STEPS].index("show")


def announce(key: str, making_seconds: float = 0.0) -> None:
    """Print a step's heading, with the estimate of it and of what is left until the show."""
    say(heading(key, {"make": making_seconds}))


def heading(key: str, known: Mapping[str, float]) -> str:
    """Return `step 2 of 6, about 3 min: ...`; `known` has seconds of steps that depend on the machine."""
    index = [step.key for step in STEPS].index(key)
    seconds = [known.get(step.key, step.seconds) for step in STEPS]
    text = f"step {index + 1} of {len(STEPS)}, {about(seconds[index])}: {STEPS[index].title}"
    if index < SHOW:
        text += f" ({about(sum(seconds[index:SHOW]))} to the first line of the show)"
    return f"== {text}"


def about(seconds: float) -> str:
    """Return a duration as one says it."""
    if seconds < 90:
        return f"about {max(5, 5 * round(seconds / 5))} s"
    return f"about {round(seconds / 60)} min"
