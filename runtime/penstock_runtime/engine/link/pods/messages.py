"""Messages between the leader of a group of pods and its workers: one line of JSON each. Pure."""

from collections.abc import Mapping
from typing import Final

import msgspec
from msgspec import Struct

MAX_LINE_BYTES: Final = 2**20


class Hello(Struct, frozen=True, tag=True):
    """Worker to leader, first: its identity, and how it would load the model."""

    index: int
    pods: int
    name: str
    settings: dict[str, str]


class Refused(Struct, frozen=True, tag=True):
    """Leader to worker, last: the two do not belong together."""

    reason: str


class Meet(Struct, frozen=True, tag=True):
    """Leader to worker: start the ranks; rank 0 listens at `port` of the leader."""

    port: int


class RanksLoaded(Struct, frozen=True, tag=True):
    """Worker to leader: all of its ranks are loaded."""


class Beat(Struct, frozen=True, tag=True):
    """Either way, every second: the HTTP process runs."""


class Lost(Struct, frozen=True, tag=True):
    """Either way, last: ranks are lost, and the group ends."""

    words: str


class Stopping(Struct, frozen=True, tag=True):
    """Worker to leader: it has received SIGTERM, and runs on until the leader has drained."""


class Close(Struct, frozen=True, tag=True):
    """Leader to worker: the last step has run."""


class Closing(Struct, frozen=True, tag=True):
    """Worker to leader, acknowledging `Close`: its ranks now exit as planned."""


PodMessage = Hello | Refused | Meet | RanksLoaded | Beat | Lost | Stopping | Close | Closing

_DECODER: Final = msgspec.json.Decoder(PodMessage)


def encode(message: PodMessage) -> bytes:
    """Return the line of a message."""
    return msgspec.json.encode(message) + b"\n"


def decode(line: bytes) -> PodMessage:
    """Return the message of a line.

    Raises:
        ValueError: it is none.
    """
    message: PodMessage = _DECODER.decode(line)
    return message


def refusal(hello: Hello, pods: int, settings: Mapping[str, str]) -> str | None:
    """Return why a worker does not belong to a leader with `pods` and `settings`, with both values; None: it does."""
    label = pod_label(hello.index, hello.name)
    if hello.pods != pods:
        return (
            f"{label} counts {hello.pods} pods in its group (LWS_GROUP_SIZE), and the leader {pods}"
        )
    if not 0 < hello.index < pods:
        return f"{label}: LWS_WORKER_INDEX must be from 1 to {pods - 1} in a group of {pods} pods"
    for name in sorted(settings.keys() | hello.settings.keys()):
        own, other = settings.get(name, "unset"), hello.settings.get(name, "unset")
        if own != other:
            return f"{name} differs within the group: {own} on the leader, {other} on {label}"
    return None


def pod_label(index: int, name: str) -> str:
    """Return how a pod of a group is named in messages."""
    return f"pod {index} ({name})"
