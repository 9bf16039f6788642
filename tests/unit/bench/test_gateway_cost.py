"""The cost of ways to pods: every way in each round, and medians with the extremes."""

import os
from collections import Counter

import pytest

from tests.bench.gateway import cost
from tests.bench.gateway.clients import ByGateway
from tests.bench.gateway.cost import ROUNDS, Way, spread


class Instant(ByGateway):
    """A client whose requests are answered at once."""

    def __init__(self, name: str, order: list[str]) -> None:
        super().__init__("127.0.0.1", 1)
        self.name, self.order = name, order

    async def post(self, body: bytes) -> int:
        """Count a request."""
        self.order.append(self.name)
        return 200


async def test_rounds_of_all_ways_are_interleaved(monkeypatch: pytest.MonkeyPatch) -> None:
    order: list[str] = []
    ways = {name: Way(Instant(name, order), os.getpid()) for name in ("a", "b", "c")}
    monkeypatch.setattr(cost, "LOADS", (2000.0,))
    monkeypatch.setattr(cost, "SIZES", (1024,))
    table = await cost.cost(ways, ROUNDS * 0.02)
    turns = [name for at, name in enumerate(order) if at == 0 or order[at - 1] != name]
    assert table.row_count == len(ways)
    # a way may be the last of one round and the first of the next, which joins two of its turns
    assert all(count > ROUNDS / 2 for count in Counter(turns).values())


def test_a_spread_is_the_median_with_the_extremes() -> None:
    assert spread([3.0, 1.0, 9.0]) == "3 (1 to 9)"
    assert spread([0.125], digits=2) == "0.12 (0.12 to 0.12)"
