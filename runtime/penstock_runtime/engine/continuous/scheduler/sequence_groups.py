"""`SequenceGroups`: the choices of each request, which wait until the first has computed their common prompt."""

from dataclasses import dataclass, field

from penstock_runtime.engine.continuous.scheduler.sequence_state import SequenceState
from penstock_runtime.engine.continuous.sequence import Sequence


@dataclass(slots=True)
class _PrefixGroup:
    leader: SequenceState
    """The choice that computes the prompt."""
    blocked: list[SequenceState] = field(default_factory=list)
    """Choices that wait for the leader's prompt."""
    members: list[SequenceState] = field(default_factory=list)


class SequenceGroups:
    """Tracks each group's leader, its blocked choices, and the choices whose prompt blocks can be shared.

    A request of one choice, the common case, is a group of one and costs one dict lookup.
    """

    def __init__(self) -> None:
        self._groups: dict[str, _PrefixGroup] = {}
        """By request id."""
        self._blocking: dict[int, _PrefixGroup] = {}
        """By uid of the leader: groups with blocked choices."""

    def add(self, state: SequenceState) -> bool:
        """Add a new sequence to its group; return whether it is blocked until the leader's prompt is computed."""
        group = self._groups.get(state.sequence.request.id)
        if group is None:
            self._groups[state.sequence.request.id] = _PrefixGroup(state, members=[state])
            return False
        group.members.append(state)
        if group.leader.settled >= state.sequence.request.prompt_tokens:
            return False
        group.blocked.append(state)
        self._blocking[group.leader.sequence.uid] = group
        return True

    def remove(self, state: SequenceState) -> list[SequenceState]:
        """Remove `state` from its group; return the choices that this unblocks."""
        group = self._groups[state.sequence.request.id]
        group.members.remove(state)
        if not group.members:
            del self._groups[state.sequence.request.id]
        if state in group.blocked:
            group.blocked.remove(state)
        if state is not group.leader or not group.members:
            return []
        self._blocking.pop(state.sequence.uid, None)
        if not group.blocked:
            group.leader = group.members[0]
            return []
        if state.sequence.finished is not None:  # its prompt was computed
            group.leader = group.members[0]
            unblocked, group.blocked = group.blocked, []
            return unblocked
        group.leader = group.blocked.pop(0)
        if group.blocked:
            self._blocking[group.leader.sequence.uid] = group
        return [group.leader]

    @property
    def count(self) -> int:
        """Return the number of groups, which is the number of requests."""
        return len(self._groups)

    @property
    def any_blocked(self) -> bool:
        """Return whether any choice is blocked."""
        return bool(self._blocking)

    def unblock(self, leader: Sequence) -> list[SequenceState]:
        """Return the choices that `leader` no longer blocks, because its prompt is computed."""
        group = self._blocking.get(leader.uid)
        if group is None or group.leader.settled < leader.request.prompt_tokens:
            return []
        del self._blocking[leader.uid]
        unblocked, group.blocked = group.blocked, []
        return unblocked

    def sibling(self, state: SequenceState) -> SequenceState | None:
        """Return a choice of the same request whose blocks contain the whole prompt that `state` needs."""
        sequence = state.sequence
        prompt_tokens = sequence.request.prompt_tokens
        members = self._groups[sequence.request.id].members
        if len(members) == 1 or sequence.length != prompt_tokens:
            return None
        return next((member for member in members if member.settled >= prompt_tokens), None)

    def blocked(self) -> list[SequenceState]:
        """Return all blocked choices."""
        return [state for group in self._blocking.values() for state in group.blocked]
