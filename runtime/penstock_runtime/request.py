"""A request, its deadline, its order, and its four possible ends. Times are seconds of one monotonic clock."""

from enum import StrEnum
from typing import Final

import numpy as np
from msgspec import Struct
from numpy.typing import NDArray

Tensor = NDArray[np.generic]
Group = tuple[tuple[str, str, tuple[int, ...]], ...]
"""What must agree for requests to share a batch: names, dtypes and shapes past the first axis."""


class Request(Struct, frozen=True, gc=False):
    """A request of one client: named tensors whose first axis is rows.

    Every input has the same number of rows (>= 1); `group` is what must agree for requests to share a
    batch: names, dtypes and shapes past the first axis.
    """

    id: str
    """Unique among the requests an engine holds: made by the HTTP side, never the client's own."""
    inputs: dict[str, Tensor]
    rows: int
    group: Group
    arrived: float
    deadline: float | None = None
    """None: it may wait without limit."""
    priority: int = 0
    """1 is the highest; 0 is unset and counts as the lowest served class (Triton's convention)."""
    tenant: str = ""

    @property
    def work(self) -> float:
        """Predicted work: its rows."""
        return self.rows


class Completed(Struct, frozen=True, gc=False):
    """Served."""

    outputs: dict[str, Tensor]
    queue_seconds: float
    """From arrival to the start of its batch."""


class Failed(Struct, frozen=True, gc=False):
    """The model, the engine or the drain failed it; the client receives the reason."""

    reason: str
    retry_after_seconds: float | None = None
    """Set: the client may try elsewhere (503); None: it is an error of the model (500)."""


class GrammarUnenforceable(Failed, frozen=True, gc=False):
    """The requested grammar exceeded a limit while the answer was generated (400)."""


class Expired(Struct, frozen=True, gc=False):
    """Its deadline passed before its batch began."""

    waited_seconds: float


class Cancelled(Struct, frozen=True, gc=False):
    """Its client disconnected."""


End = Completed | Failed | Expired | Cancelled


class RequestOutcome(StrEnum):
    """The label value of `penstock_requests_total`."""

    COMPLETED = "Completed"
    FAILED = "Failed"
    EXPIRED = "Expired"
    CANCELLED = "Cancelled"


OUTCOMES: Final[dict[type[End], RequestOutcome]] = {
    Completed: RequestOutcome.COMPLETED,
    Failed: RequestOutcome.FAILED,
    Expired: RequestOutcome.EXPIRED,
    Cancelled: RequestOutcome.CANCELLED,
}
