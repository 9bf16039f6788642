"""The figures of docs/how-to/cost.md, and of a mix in variants.md, are those of the operator and the simulator."""

import json
import re
from dataclasses import replace
from decimal import Decimal
from math import pi, sin
from pathlib import Path
from typing import Any

import pytest
import yaml

from penstock_kubectl.__main__ import main
from penstock_operator.decide.cost.prices import money
from penstock_operator.observed import NodeView, PolicyObject
from tests.support.pages.blocks import DOCS, ROOT, blocks
from tests.unit.alerts.test_rules import promtool
from tests.unit.kubectl.simulated import run
from tests.unit.kubectl.stage import PROMETHEUS, Stage, kubeconfig
from tests.unit.kubectl.stage import policy as stage_policy
from tests.unit.kubectl.stage import pool as stage_pool
from tests.unit.kubectl.test_simulate_variants import stage as stage_with_variants
from tests.unit.operator.decide.cost.test_pool_cost import NodeWorld, served
from tests.unit.operator.decide.world import known, policy, pool, settled

PAGE = DOCS / "how-to" / "cost.md"
TEXT = PAGE.read_text(encoding="utf-8")
OF_VARIANTS = (DOCS / "how-to" / "variants.md").read_text(encoding="utf-8")
OF_VARIANTS = OF_VARIANTS[OF_VARIANTS.index("### What the mix saves") :]
SHOWN: list[dict[str, Any]] = [
    yaml.safe_load(block.text) for block in blocks(PAGE) if block.language == "yaml"
]
PRICING: dict[str, Any] = SHOWN[0]["spec"]["pricing"]
COST: dict[str, str] = SHOWN[1]["status"]["cost"]
OPERATORS = {"\u00d7": "*", "\u00f7": "/", "\u2212": "-", ",": ""}
EQUATION = re.compile(r"((?:[0-9(][-0-9.,()+ \u00d7\u00f7\u2212]*) ?[0-9)]) = ([0-9.,]*[0-9])")


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
    equations = EQUATION.findall(" ".join((TEXT + OF_VARIANTS).split()))
    assert len(equations) >= 14
    for left, right in equations:
        value = eval("".join(OPERATORS.get(character, character) for character in left))  # noqa: S307
        _, _, decimals = right.partition(".")
        assert f"{value:.{len(decimals)}f}" == right.replace(",", ""), left


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


def said() -> list[tuple[str, str, str, str]]:
    """Return (cost of the law, baseline, its cost, saved percentage) of each sentence of the page."""
    sentence = r"^as it is costs ([0-9.]+) EUR, ([\w-]+) ([0-9.]+) EUR: ([0-9.]+) % less$"
    return re.findall(sentence, TEXT, re.MULTILINE)


def test_the_savings_of_the_page_are_those_of_its_costs() -> None:
    assert [baseline for _, baseline, _, _ in said()] == ["fixed-4", "hpa-70"]
    for own, _, other, percent in said():
        assert f"{100 * (1 - float(own) / float(other)):.1f}" == percent
        assert f"= {percent} %" in TEXT


@pytest.mark.long
def test_the_simulator_computes_the_savings_of_the_page(tmp_path: Path) -> None:
    rates = [40 + 160 * sin(pi * step / 240) ** 2 for step in range(241)]
    law = {"mode": "Auto", "algorithm": "CapacityAtObjective", "maxReplicas": 8}
    here = {"prometheus": {"url": PROMETHEUS}}
    stage, out = (
        Stage(stage_pool(scaling=law), [stage_policy(metrics=here)], rates),
        tmp_path / "out",
    )
    words = ["--last", "1h", "--savings", "--price", "2.66", "--json", str(out)]
    with kubeconfig(stage, tmp_path) as file:
        assert main(["simulate", "chat", "--kubeconfig", str(file), *words]) == 0
    costs = {case["law"]: case["cost"] for case in json.loads(out.read_text())["cases"]}
    shown = {"as it is": float(said()[0][0])}
    shown |= {baseline: float(cost) for _, baseline, cost, _ in said()}
    assert costs == pytest.approx(shown, rel=0.1)  # the law may change a little


@pytest.mark.long
def test_the_simulator_computes_the_savings_of_the_mix_of_the_page(tmp_path: Path) -> None:
    mixed, out = stage_with_variants(prices={"gpu": "2.66", "cpu": "0.16"}), tmp_path / "out.json"
    mixed.rates = [20 + 100 * sin(pi * step / 120) ** 2 for step in range(121)]
    assert run(mixed, tmp_path, "--last", "30m", "--savings", "--json", str(out)) == 0
    own, fixed, hpa = (case["cost"] for case in json.loads(out.read_text())["cases"])
    sentence = r"^as it is costs ([0-9.]+) EUR, (?:fixed: 14|hpa-70 on) cpu ([0-9.]+) EUR: ([0-9.]+) % less$"
    shown = [tuple(map(float, each)) for each in re.findall(sentence, OF_VARIANTS, re.MULTILINE)]
    assert [each[:2] for each in shown] == [
        pytest.approx((own, other), rel=0.1)
        for other in (fixed, hpa)  # the law may change a little
    ]
    for _, _, percent in shown:
        assert f"= {percent} %" in OF_VARIANTS


POOL = 'namespace="team-a",pool="chat"'
SERIES = {
    f'penstock_operator_cost_per_hour{{{POOL},currency="EUR",pod="old"}}': "6.28x999 stale",
    f'penstock_operator_cost_per_hour{{{POOL},currency="EUR",pod="new"}}': "_x1000 6.28x500",
    f'penstock_requests_total{{{POOL},outcome="Completed",pod="a"}}': "0+300x1500",
    f'penstock_requests_total{{{POOL},outcome="Completed",pod="b"}}': "0+300x1500",
    f'penstock_tokens_total{{{POOL},phase="decode"}}': "0+48000x1500",
    f'penstock_tokens_total{{{POOL},phase="prefill"}}': "0+90000x1500",
}
"""By minute: the hour at 6.28 from two pods of the operator in turn, 2 x 300 requests and 48,000 generated tokens a minute, as on the page."""
DASHBOARD = json.loads((ROOT / "charts/penstock/dashboards/pools.json").read_text())


def panel(title: str) -> list[str]:
    """Return the expressions of a panel for the pool of the page."""
    (chosen,) = (each for each in DASHBOARD["panels"] if each["title"] == title)
    return [
        target["expr"].replace("$namespace", "team-a").replace("$pool", "chat")
        for target in chosen["targets"]
    ]


def test_the_dashboard_shows_the_figures_of_the_page(tmp_path: Path) -> None:
    hour, day, _ = panel("Cost")
    expected = {
        hour: 6.28,
        day: 150.72,
        panel("Cost of 1,000 requests")[0]: 0.1744,
        panel("Cost of 1,000,000 tokens")[0]: 2.1806,
    }
    evaluate(expected, tmp_path)


def test_the_queries_of_the_page_give_its_figures(tmp_path: Path) -> None:
    shown, *_ = (block.text for block in blocks(PAGE) if block.language == "promql")
    now, day, thousand = re.split(r"\n(?! )", shown.strip())
    evaluate({now: 6.28, day: 150.72, thousand: 0.1744}, tmp_path)


def evaluate(expected: dict[str, float], folder: Path) -> None:
    """Check the value in EUR of each query."""
    cases = [
        # half a minute after a sample: the day has 1,440 of them
        {"expr": f"round({expr}, 0.0001)", "eval_time": "1500m30s", "exp_samples": [{"labels": '{currency="EUR"}', "value": value}]}
        for expr, value in expected.items()
    ]  # fmt: skip
    inputs = [{"series": series, "values": values} for series, values in SERIES.items()]
    tests = [{"interval": "1m", "input_series": inputs, "promql_expr_test": cases}]
    file = folder / "cost.yaml"
    file.write_text(yaml.safe_dump({"rule_files": [], "tests": tests}))
    done = promtool("test", "rules", file)
    assert done.returncode == 0, done.stdout + done.stderr
