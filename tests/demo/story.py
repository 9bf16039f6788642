"""The acts of the demo in order: rates, edits and durations."""

import json
from dataclasses import dataclass
from typing import Any

NAMESPACE = "penstock-demo"
POOL = "sample"
CHAT_POOL = "chat"
POLICY = "sample"


@dataclass(frozen=True, slots=True)
class Edit:
    """A live edit as a kubectl command."""

    kind: str
    """`pspool` or `pspolicy`."""
    name: str
    spec: dict[str, Any]
    why: str
    label: str
    """A few words for the picture."""

    def command(self) -> tuple[str, ...]:
        """Return the kubectl command without its connection flags."""
        where = ("-n", NAMESPACE) if self.kind == "pspool" else ()
        patch = json.dumps({"spec": self.spec}, separators=(",", ":"))
        return ("patch", self.kind, self.name, *where, "--type=merge", "-p", patch)


@dataclass(frozen=True, slots=True)
class Act:
    """A part of the demo. With `until_shrunk` it ends early once the pool is back at minReplicas."""

    title: str
    rate: float
    seconds: float
    edit: Edit | None = None
    until_shrunk: bool = False


SMALLER_BATCHES = Edit(
    "pspool", POOL, {"batching": {"size": {"max": 6}, "maxQueueDelayMilliseconds": 10}},
    "smaller batches and a shorter window, while requests run",
    "pool: batches of 6 at most",
)  # fmt: skip
MORE_REPLICAS = Edit(
    "pspolicy", POLICY, {"bounds": {"replicas": {"max": 6}}},
    "the administrator grants the namespace two more replicas a pool",
    "policy: 6 replicas",
)  # fmt: skip

STORY = (
    Act("a little load", rate=15, seconds=20),
    Act("the load rises", rate=45, seconds=30),
    Act("the load rises further than four replicas carry", rate=140, seconds=45),
    Act("a live edit of the policy", rate=140, seconds=60, edit=MORE_REPLICAS),
    Act("a live edit of the pool", rate=140, seconds=35, edit=SMALLER_BATCHES),
    Act("the load drops", rate=10, seconds=150, until_shrunk=True),
)
