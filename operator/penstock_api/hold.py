"""How a gateway holds requests of a pool without ready pods (`HoldLimits`, which the operator writes on the pool's Service), and the parts of its starts."""

import json
from dataclasses import asdict, dataclass
from enum import StrEnum


@dataclass(frozen=True, slots=True)
class HoldLimits:
    """The bounds of the requests of one pool that one pod of a gateway holds."""

    max_seconds: int
    """Time after which the gateway answers a held request with 504."""
    max_requests: int
    """Requests held at a time; the gateway answers further ones with 429."""
    per_pod: int
    """Requests in flight at a ready pod up to which held ones are released."""

    def as_annotation(self) -> str:
        """Return the value of the annotation `penstock.dev/gateway-hold`."""
        return json.dumps(asdict(self))

    @classmethod
    def from_annotation(cls, text: str | None) -> "HoldLimits | None":
        """Return the limits in an annotation; None if it is absent or was edited by hand."""
        try:
            limits = cls(**json.loads(text or "null"))
        except (RecursionError, TypeError, ValueError):
            return None
        values = asdict(limits).values()
        return limits if all(type(value) is int and value >= 1 for value in values) else None


class StartPart(StrEnum):
    """The parts of a start from zero, in order, each with its end, as a gateway knows it."""

    DECISION = "Decision"
    """A pod of the pool exists."""
    SCHEDULING = "Scheduling"
    """It has a node."""
    CONTAINER = "Container"
    """Its image is there, and a container runs."""
    MODEL = "Model"
    """It is Ready."""
    ENDPOINT = "Endpoint"
    """Envoy acknowledged it as an endpoint."""
    FIRST_BYTE = "FirstByte"
    """The first byte of a successful answer was on its way to a client."""
