"""The choices of one request share its prompt: the later ones wait until the first has computed it."""

from dataclasses import dataclass, field

from penstock_runtime.engine.continuous.scheduler.slot import SequenceState
from penstock_runtime.engine.continuous.sequence import Sequence


@dataclass(slots=True)
class _PrefixGroup:
    leader: SequenceState
    held: list[SequenceState] = field(default_factory=list)
    members: list[SequenceState] = field(default_factory=list)


class SequenceGroups:
    """Owns who leads, who is held back, and from whom a newcomer may take the prompt's blocks.

    Requests of one choice, nearly all, are families of one and cost a look-up in a dict.
    """

    def __init__(self) -> None:
        self._families: dict[str, _PrefixGroup] = {}
        self._leading: dict[int, _PrefixGroup] = {}
        """By the uid of a leader that somebody is held for."""

    def join(self, slot: SequenceState) -> bool:
        """Take in a newcomer; return whether it must be held until its leader's prompt is computed."""
        family = self._families.get(slot.sequence.request.id)
        if family is None:
            self._families[slot.sequence.request.id] = _PrefixGroup(slot, members=[slot])
            return False
        family.members.append(slot)
        if family.leader.settled >= slot.sequence.request.prompt_tokens:
            return False
        family.held.append(slot)
        self._leading[family.leader.sequence.uid] = family
        return True

    def leave(self, slot: SequenceState) -> list[SequenceState]:
        """Forget `slot`; return whom nobody leads any more and who may therefore wait in line."""
        family = self._families[slot.sequence.request.id]
        family.members.remove(slot)
        if not family.members:
            del self._families[slot.sequence.request.id]
        if slot in family.held:
            family.held.remove(slot)
        if slot is not family.leader or not family.members:
            return []
        self._leading.pop(slot.sequence.uid, None)
        if not family.held:
            family.leader = family.members[0]
            return []
        family.leader = family.held.pop(0)
        if family.held:
            self._leading[family.leader.sequence.uid] = family
        return [family.leader]

    @property
    def count(self) -> int:
        """Return how many requests are held."""
        return len(self._families)

    @property
    def anyone_held(self) -> bool:
        """Return whether anybody is held back."""
        return bool(self._leading)

    def released(self, sequence: Sequence) -> list[SequenceState]:
        """Return who was held for `sequence`, if its prompt is computed by now; they are held no more."""
        family = self._leading.get(sequence.uid)
        if family is None or family.leader.settled < sequence.request.prompt_tokens:
            return []
        del self._leading[sequence.uid]
        held, family.held = family.held, []
        return held

    def sibling(self, slot: SequenceState) -> SequenceState | None:
        """Return a choice of the same request whose blocks hold all of the prompt that `slot` needs."""
        sequence = slot.sequence
        members = self._families[sequence.request.id].members
        if len(members) == 1 or sequence.length != sequence.request.prompt_tokens:
            return None
        usable = (one for one in members if one.settled >= sequence.request.prompt_tokens)
        return next(usable, None)

    def held(self) -> list[SequenceState]:
        """Return everybody who is held back."""
        return [slot for family in self._leading.values() for slot in family.held]
