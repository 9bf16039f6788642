"""The figures of docs/how-to/cost.md are those of the operator for the prices and the pool that the page describes."""

import re
from dataclasses import replace
from decimal import Decimal
from itertools import pairwise
from typing import Any

import yaml

from penstock_operator.decide.cost.prices import money
from penstock_operator.observed import NodeView, PolicyObject
from tests.support.pages.blocks import DOCS, blocks
from tests.unit.operator.decide.cost.test_pool_cost import NodeWorld, served
from tests.unit.operator.decide.world import known, policy, pool, settled

PAGE = DOCS / "how-to" / "cost.md"
TEXT = PAGE.read_text(encoding="utf-8")
SHOWN: list[dict[str, Any]] = [
    yaml.safe_load(block.text) for block in blocks(PAGE) if block.language == "yaml"
]
PRICING: dict[str, Any] = SHOWN[0]["spec"]["pricing"]
COST: dict[str, str] = SHOWN[1]["status"]["cost"]
OPERATORS = {"\u00d7": "*", "\u00f7": "/", ",": ""}


def described() -> NodeWorld:
    """Return the world of the page: one GPU and four cores a pod, two pods on H100 nodes and one on another."""
    requests = {"container": {"resources": {"requests": {"cpu": "4"}}}}
    prices: PolicyObject = policy("prices", pricing=PRICING)
    base = settled(pool=pool(replicas=3, template=requests))
    labels = {
        "a": PRICING["prices"][0]["nodeSelector"],
        "b": PRICING["prices"][0]["nodeSelector"],
        "c": {},
    }
    pods = tuple(replace(each, node=node) for each, node in zip(base.pods, labels, strict=True))
    changes = {"policies": (prices,), "pods": pods, "nodes": NodeView(labels)}
    return NodeWorld(**{**vars(base), **changes})


def test_the_status_of_the_page_is_that_of_its_pool() -> None:
    cost = known(served(described(), 900, requests=10, tokens=800).status.cost)
    given = cost.model_dump(mode="json", by_alias=True, exclude_none=True)
    message = given.pop("message")
    assert given == COST
    assert "2 pods at 2.66 EUR" in message
    assert "1 pod at 0.96 EUR" in message


def test_the_figures_are_worked_out_right() -> None:
    table = TEXT[TEXT.index("| Figure | Worked out |") : TEXT.index("Requests and tokens are")]
    equations = re.findall(r"([0-9][0-9.,\u00d7\u00f7+ ]*) = ([0-9.,]+[0-9])", table)
    assert len(equations) >= 7
    for left, right in equations:
        value = Decimal(str(eval("".join(OPERATORS.get(c, c) for c in left))))  # noqa: S307
        assert money(Decimal(f"{value:.12f}")) == money(Decimal(right.replace(",", ""))), left


def test_every_figure_of_the_status_is_worked_out() -> None:
    rows = dict(re.findall(r"^\| `(\w+)` \| (.*) \|$", TEXT, re.MULTILINE))
    for field, value in COST.items():
        if field != "currency":
            assert rows[field].endswith(f"= {value}"), field


def test_an_alternative_costs_its_replicas() -> None:
    said = re.search(
        r"four replicas that is 4 \u00d7 ([0-9.]+) = ([0-9.]+[0-9])", " ".join(TEXT.split())
    )
    assert said is not None
    each, four = said.groups()
    assert each == COST["perReplicaHour"]
    assert money(4 * Decimal(each)).startswith(four)


def test_prices_are_listed_from_the_narrowest_to_the_widest() -> None:
    labels = [len(price.get("nodeSelector", {})) for price in PRICING["prices"]]
    assert all(before >= after for before, after in pairwise(labels))
