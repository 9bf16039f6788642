"""A seeded script of changes to many pools, independent of the operator's reaction."""

import random
from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass

from tests.support.kube.api import Object
from tests.support.kube.pools import PoolHandle, emulated

Change = Callable[[], object]
NOWHERE: Object = {"nodeSelector": {"penstock-tests/nowhere": "yes"}}
"""A template whose pods are created but never scheduled."""
CHILD_KINDS = ("Service", "ConfigMap", "Deployment", "PodDisruptionBudget", "ServiceAccount")


def first_spec() -> Object:
    """Return the initial spec of every pool."""
    return emulated(replicas=0, template=NOWHERE)


@dataclass(frozen=True, slots=True)
class Script:
    """`rounds` rounds of `each` changes: live and template edits, replica counts, deleted children, new pools."""

    pools: Sequence[PoolHandle]
    late: Sequence[PoolHandle]
    """Pools that the script creates."""
    seed: int
    rounds: int
    each: int = 6

    def changes(self) -> Iterator[list[Change]]:
        """Yield the changes of each round.

        A pool's template changes once, and never its replica count as well. An operator that was down sees only the final
        spec; with both changes its rollout would end differently, because pods that never serve block a rollout forever.
        """
        dice = random.Random(self.seed)  # noqa: S311 - repeatable, not secret
        fresh, coming, turn = list(self.pools[::2]), list(self.late), 0
        dice.shuffle(fresh)
        for _ in range(self.rounds):
            changes: list[Change] = []
            for _ in range(self.each):
                turn += 1
                changes.append(self._one(dice, turn, fresh, coming))
            yield changes

    def _one(
        self, dice: random.Random, turn: int, fresh: list[PoolHandle], coming: list[PoolHandle]
    ) -> Change:
        pool, kind = dice.choice(self.pools), dice.choice(CHILD_KINDS)
        what = dice.choice(("live", "live", "count", "child", "child", "template", "late"))
        if what == "template" and fresh:
            edited, spec = fresh.pop(), {"template": {"labels": {"turn": str(turn)}}}
            return lambda: edited.edit(spec)
        if what == "late" and coming:
            new = coming.pop()
            return lambda: new.apply(first_spec())
        if what == "count":
            counted, count = dice.choice(self.pools[1::2]), turn % 3
            return lambda: counted.edit({"replicas": count})
        if what == "child":
            return lambda: pool.api.delete(pool.children[kind])
        return lambda: pool.edit({"batching": {"maxQueueDepth": 100 + turn}})
