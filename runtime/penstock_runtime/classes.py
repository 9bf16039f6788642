"""Who is held at the door, by class of priority: how many rows, and who of those that wait would be served last."""

from penstock_api.limits import Discipline
from penstock_runtime.request import Request
from penstock_runtime.waiting.disciplines import LOWEST_CLASS, order_key, priority_class


class Classes:
    """Owns what is held by class; a class's newest is the last of it to be served."""

    def __init__(self) -> None:
        self._rows = [0] * (LOWEST_CLASS + 1)
        self._waiting: list[dict[str, Request]] = [{} for _ in self._rows]

    def join(self, request: Request) -> None:
        """Note a request that waits from now on."""
        of = priority_class(request.priority)
        self._rows[of] += request.rows
        self._waiting[of][request.id] = request

    def begin(self, request: Request) -> None:
        """Note that a request waits no longer, but runs."""
        self._waiting[priority_class(request.priority)].pop(request.id, None)

    def leave(self, request: Request) -> None:
        """Note that a request has ended."""
        of = priority_class(request.priority)
        self._rows[of] -= request.rows
        self._waiting[of].pop(request.id, None)

    def rows_up_to(self, priority: int) -> int:
        """Return the rows held of the class of `priority` and of better ones."""
        return sum(self._rows[: priority_class(priority) + 1])

    def waiting_below(self, priority: int) -> int:
        """Return how many requests of a class worse than that of `priority` wait."""
        return sum(map(len, self._waiting[priority_class(priority) + 1 :]))

    def behind(self, request: Request) -> Request | None:
        """Return who would be served last by priority, if that is after `request`."""
        newest = [next(reversed(one.values())) for one in self._waiting if one]
        last = max(newest, key=_key, default=None)
        return last if last is not None and _key(last) > _key(request) else None


def _key(request: Request) -> float:
    return order_key(Discipline.PRIORITY, request)
