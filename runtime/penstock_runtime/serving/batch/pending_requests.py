"""`PendingRequests`: the requests of a batch engine that have not ended."""

from collections.abc import Callable, Iterable

from msgspec import Struct

from penstock_runtime.errors import QueueFull
from penstock_runtime.request import End
from penstock_runtime.serving.admission.priority_classes import PriorityClasses
from penstock_runtime.serving.admission.ticket import Ticket

OnEnd = Callable[[End | QueueFull], bool]
"""Receives the end of a request, or its displacement; returns whether its client was still connected."""


class PendingRequest(Struct, gc=False):
    """A submitted request that has not ended; the engine, perhaps in another process, has its tensors."""

    ticket: Ticket
    on_end: OnEnd
    id: str
    rows: int
    arrived: float
    priority: int


class PendingRequests:
    """Owns the submitted requests by id and by priority class."""

    __slots__ = ("_now", "_requests", "_since", "classes", "rows")

    def __init__(self, now: Callable[[], float]) -> None:
        self._now = now
        self._requests: dict[str, PendingRequest] = {}
        self._since = 0.0
        """Time at which a request was added to an empty ledger."""
        self.classes = PriorityClasses()
        self.rows = 0

    def __len__(self) -> int:
        return len(self._requests)

    def ids(self) -> list[str]:
        """Return the ids of all requests."""
        return list(self._requests)

    def since(self) -> float | None:
        """Return the time since which there have always been requests; None: there are none."""
        return self._since if self._requests else None

    def add(self, request: PendingRequest) -> None:
        """Add a submitted request, which waits."""
        if not self._requests:
            self._since = self._now()
        self._requests[request.id] = request
        self.rows += request.rows
        self.classes.join(request)

    def begin(self, ids: Iterable[str]) -> None:
        """Record that requests run."""
        for name in ids:
            request = self._requests.get(name)
            if request is not None:
                self.classes.begin(request)

    def pop(self, id: str) -> PendingRequest | None:
        """Remove and return a request; None if it has ended."""
        request = self._requests.pop(id, None)
        if request is not None:
            self.rows -= request.rows
            self.classes.leave(request)
        return request
