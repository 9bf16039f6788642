"""`WaitingRequests`: the queue of a batch engine, in groups of equal shape, so that forming a batch reads only heads.

While requests differ only in their order of arrival, they wait in one FIFO queue. The first request of another kind,
or out of order, moves all of them into groups, which remain in use until the queue is empty.
"""

from itertools import count

from msgspec import Struct

from penstock_api.pod_contract import Discipline
from penstock_runtime.engine.queue.fair_share import TenantCounters
from penstock_runtime.engine.queue.fifo import ARRIVAL_SERVES, FifoQueue
from penstock_runtime.engine.queue.group import Group
from penstock_runtime.engine.queue.group_index import GroupIndex, Shape
from penstock_runtime.engine.queue.order import Key, order_of
from penstock_runtime.request import Request


class GroupHead(Struct, frozen=True):
    """The properties of a group that decide when it runs."""

    shape: Shape
    key: Key
    """Key of the request that is served next."""
    rows: int
    """Rows of the whole group."""
    opened: float
    """Arrival of the first waiting request, which opens the batch window."""
    earliest_deadline: float | None


class WaitingRequests:
    """Waiting requests in the order of one discipline; a change of discipline computes all keys again.

    Adding, removing or expiring one request and reading any head cost O(log n), amortized.
    """

    def __init__(self, discipline: Discipline) -> None:
        self._discipline = discipline
        self._tenants = TenantCounters()
        self._plain = FifoQueue()
        """Waiting requests while there are no groups; empty while there are."""
        self._groups: dict[Shape, Group] = {}
        self._shape_of: dict[str, Shape] = {}
        self._sequence = count()
        self._index = GroupIndex(self._groups)
        self.rows = 0

    def __len__(self) -> int:
        return len(self._plain) + len(self._shape_of)

    def __contains__(self, id: object) -> bool:
        return id in self._plain or id in self._shape_of

    def add(self, request: Request) -> None:
        """Queue `request`.

        Raises:
            ValueError: a request with this id already waits.
        """
        if request.id in self._plain or request.id in self._shape_of:
            raise ValueError(f"request id '{request.id}' is already waiting: ids must be unique")
        self.rows += request.rows
        if not self._groups and self._discipline in ARRIVAL_SERVES:
            if self._plain.add(request):
                return
            self._sort_into_groups()
        self._add_to_group(request)

    def _sort_into_groups(self) -> None:
        for request in self._plain.take_all():
            self._add_to_group(request)

    def _add_to_group(self, request: Request) -> None:
        shape = request.group
        group = self._groups.get(shape)
        if group is None:
            group = self._groups[shape] = Group(order_of(self._discipline, self._tenants))
        group.add(request, next(self._sequence))
        self._shape_of[request.id] = shape
        self._index.changed.add(shape)
        if len(group) == 1 and len(self._groups) > 1:
            self._index.refresh()

    def remove(self, id: str) -> Request | None:
        """Remove and return the request `id`, or return None if it does not wait."""
        shape = self._shape_of.get(id)
        if shape is not None:
            return self._take(shape, id)
        request = self._plain.remove(id)
        if request is not None:
            self.rows -= request.rows
        return request

    def take(self, shape: Shape, max_rows: int) -> tuple[Request, ...]:
        """Remove and return the first requests of a group that fit in `max_rows`, at least one.

        Order is strict: a head that does not fit ends the batch, and no later request overtakes it. A head
        larger than `max_rows` is returned alone.
        """
        if len(self._plain):
            alike = self._plain.take(max_rows)
            self.rows = self._plain.rows
            return tuple(alike)
        group = self._groups[shape]
        taken = group.take(max_rows)
        for request in taken:
            del self._shape_of[request.id]
            self.rows -= request.rows
        self._note_change(shape, group)
        return tuple(taken)

    def expire(self, now: float) -> list[Request]:
        """Remove and return the requests whose deadline is at or before `now`, the earliest first."""
        if len(self._plain):  # then there are no groups
            alike = self._plain.expire(now)
            self.rows = self._plain.rows
            return alike
        expired: list[Request] = []
        while (first := self._first_to_expire()) is not None and first[0] <= now:
            expired.append(self._take(first[1], self._groups[first[1]].first_to_expire()))
        return expired

    def next_expiry(self) -> float | None:
        """Return the earliest deadline, or None if no request has one."""
        if len(self._plain):
            return self._plain.head().deadline
        first = self._first_to_expire()
        return None if first is None else first[0]

    def _first_to_expire(self) -> tuple[float, Shape] | None:
        """Return the earliest deadline of the groups, and its shape."""
        if len(self._groups) > 1:
            return self._index.earliest_deadline()
        for shape, group in self._groups.items():
            deadline = group.earliest_deadline()
            return None if deadline is None else (deadline, shape)
        return None

    def heads(self) -> tuple[GroupHead, ...]:
        """Return the groups that can matter next: the first by key, then by opening, deadline and rows.

        At most four, the first by key in front; empty when nothing waits.
        """
        if len(self._plain):
            return (_head_of_fifo(self._plain),)
        if len(self._groups) <= 1:
            return tuple([_head_of_group(shape, group) for shape, group in self._groups.items()])
        shapes = self._index.first_shapes()
        return tuple([_head_of_group(shape, self._groups[shape]) for shape in shapes])

    def change_discipline(self, discipline: Discipline) -> None:
        """Order the queue by another discipline; ties keep the order of admission, and tenant counters restart."""
        if discipline == self._discipline:
            return
        self._discipline, self._tenants = discipline, TenantCounters()
        for shape, group in self._groups.items():
            group.change_order(order_of(discipline, self._tenants))
            self._note_change(shape, group)
        self._sort_into_groups()

    def in_order(self) -> list[Request]:
        """Return all waiting requests, by key; O(n log n), called once per drain."""
        if len(self._plain):
            return list(self._plain)
        keyed = [entry for group in self._groups.values() for entry in group.entries()]
        return [request for _, request in sorted(keyed, key=lambda entry: entry[0])]

    def _take(self, shape: Shape, id: str) -> Request:
        group = self._groups[shape]
        request = group.remove(id)
        del self._shape_of[id]
        self.rows -= request.rows
        self._note_change(shape, group)
        return request

    def _note_change(self, shape: Shape, group: Group) -> None:
        if not len(group):
            del self._groups[shape]
            self._index.discard(shape)
        elif len(self._groups) > 1:
            self._index.update(shape, group)
        else:
            self._index.changed.add(shape)


def _head_of_group(shape: Shape, group: Group) -> GroupHead:
    return GroupHead(
        shape=shape,
        key=group.head()[0],
        rows=group.rows,
        opened=group.opened(),
        earliest_deadline=group.earliest_deadline(),
    )


def _head_of_fifo(plain: FifoQueue) -> GroupHead:
    first = plain.head()
    return GroupHead(first.group, (first.arrived, 0), plain.rows, first.arrived, first.deadline)
