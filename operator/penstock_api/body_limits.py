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
        """Return the limits in an annotation; none if it is absent or was edited by hand."""
        try:
            limits = cls(**json.loads(text or "{}"))
        except (TypeError, ValueError):
            return cls()
        values = [value for value in asdict(limits).values() if value is not None]
        return limits if all(type(value) is int and value >= 1 for value in values) else cls()


NO_BODY_LIMITS: Final = BodyLimits()
