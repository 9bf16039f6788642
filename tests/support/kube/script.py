"""Changes to many pools, the same for the same seed, whatever an operator makes of them meanwhile."""

import random
from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass

from tests.support.kube.api import Object
from tests.support.kube.pools import PoolHandle, emulated

Change = Callable[[], object]
NOWHERE: Object = {"nodeSelector": {"penstock-tests/nowhere": "yes"}}
"""Pods are made, and cost no node anything."""
CHILD_KINDS = ("Service", "ConfigMap", "Deployment", "PodDisruptionBudget", "ServiceAccount")


def first_spec() -> Object:
    """Return what every pool begins with."""
    return emulated(replicas=0, template=NOWHERE)


@dataclass(frozen=True, slots=True)
class Script:
    """`rounds` rounds of `each` changes: live and template edits, counts, lost children, pools that come and go."""

    pools: Sequence[PoolHandle]
    late: Sequence[PoolHandle]
    """Created on the way."""
    seed: int
    rounds: int
    each: int = 6

    def changes(self) -> Iterator[list[Change]]:
        """Yield the changes of each round.

        A pool's template changes once, and only where its count does not: who is down for a while sees no history, and pods
        that never serve would keep a rollout for ever where it began with them, which it does not where both are seen at once.
        """
        dice = random.Random(self.seed)  # noqa: S311 - repeatable, not secret
        fresh, coming, turn = list(self.pools[::2]), list(self.late), 0
        dice.shuffle(fresh)
        for _ in range(self.rounds):
            made: list[Change] = []
            for _ in range(self.each):
                turn += 1
                made.append(self._one(dice, turn, fresh, coming))
            yield made

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
