"""`BodyLimits`: the largest request body of a pool and the time to send it, which the operator writes on the pool's Service for the gateway."""

import json
from dataclasses import asdict, dataclass
from typing import Final


@dataclass(frozen=True, slots=True)
class BodyLimits:
    """The limits that the pool sets; None: the gateway's own."""

    max_bytes: int | None = None
    """Size above which the gateway answers 413."""
    timeout_seconds: int | None = None
    """Time to send a whole request, after which the gateway answers 408."""

    def as_annotation(self) -> str:
        """Return the value of the annotation `penstock.dev/gateway-body`; empty without a limit."""
        limits = {name: value for name, value in asdict(self).items() if value is not None}
        return json.dumps(limits) if limits else ""

    @classmethod
    def from_annotation(cls, text: str | None) -> "BodyLimits":
        """Return the limits in an annotation, without those of a later version; none if it is absent or was edited by hand."""
        try:
            given = dict(json.loads(text or "{}"))
        except (RecursionError, TypeError, ValueError):
            return cls()
        limits = {name: given[name] for name in cls.__slots__ if name in given}
        known = all(type(value) is int and value >= 1 for value in limits.values())
        return cls(**limits) if known else cls()


NO_BODY_LIMITS: Final = BodyLimits()
