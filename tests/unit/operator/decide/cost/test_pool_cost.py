"""The cost of a pool, from its pods, their nodes and its traffic."""

from dataclasses import dataclass, replace
from decimal import Decimal
from math import inf
from typing import Any

from hypothesis import given, settings
from hypothesis import strategies as st

from penstock_api.types.status import CostStatus
from penstock_operator.decide.cost.pool_cost import MILLION, THOUSAND, per_units, pool_price
from penstock_operator.decide.manifests.pod_template.pod import pod_template
from penstock_operator.decide.plan import PoolPlan
from penstock_operator.decide.planning.planner_state import planner_state
from penstock_operator.observed import (
    NO_NODES,
    GenerationSample,
    NodeView,
    PodObject,
    PodSample,
    PolicyObject,
    PoolSignals,
    PoolView,
    SignalSource,
)
from tests.unit.operator.decide.cost.test_prices import GPU, price
from tests.unit.operator.decide.world import CONFIG, World, known, pod, policy, pool, settled

H100, L4 = {"gpu": "h100"}, {"gpu": "l4"}
RESOURCES = {"container": {"resources": {"requests": {"cpu": "4", "memory": "16Gi"}}}}
ALL_AT_1 = price("all", 1)
ENTRIES = (price("h100", "2.50", gpu="h100"), price("other", "0.80"), price("core", "0.04", "cpu"))


def priced(*entries: dict[str, Any], name: str = "prod", **more: Any) -> PolicyObject:
    pricing = {"currency": "EUR", "prices": entries or ENTRIES}
    return policy(name, pricing=pricing, **more)


@dataclass
class NodeWorld(World):
    """A world whose pods have nodes."""

    nodes: NodeView = NO_NODES

    def view(self) -> PoolView:
        return replace(super().view(), nodes=self.nodes)


def world(*nodes: str, policies: tuple[PolicyObject, ...] = (), **spec: Any) -> NodeWorld:
    """Return a settled world with a pod on each node; `a` and `b` have H100s, any other has not."""
    base = settled(pool=pool(replicas=len(nodes), template=RESOURCES, **spec))
    labels = {name: H100 if name in ("a", "b") else L4 for name in nodes}
    pods = tuple(replace(each, node=node) for each, node in zip(base.pods, nodes, strict=True))
    changes = {"policies": policies or (priced(),), "pods": pods, "nodes": NodeView(labels)}
    return NodeWorld(**{**vars(base), **changes})


def cost(subject: World) -> CostStatus:
    return known(subject.run().status.cost)


def test_the_price_of_a_template_is_known_only_if_every_node_that_it_selects_has_it() -> None:
    def of_template(**labels: str) -> Decimal | None:
        chosen = {"nodeSelector": labels, **RESOURCES}
        empty = world(policies=(priced(),)).view()
        rendered = pod_template(pool(template=chosen), CONFIG)
        return known(pool_price(empty, rendered, (priced(),))).per_template

    assert of_template() is None
    assert of_template(rack="1") is None
    assert of_template(gpu="l4") == Decimal("0.96")
    assert of_template(gpu="h100") == Decimal("2.66")


def test_without_prices_there_is_no_cost() -> None:
    assert settled().run().status.cost is None


def test_an_hour_is_the_sum_over_the_pods_and_a_day_has_24() -> None:
    shown = cost(world("a", "b", "c"))
    # 2 x (2.50 + 4 x 0.04) + 1 x (0.80 + 4 x 0.04) = 5.32 + 0.96 = 6.28
    assert (shown.currency, shown.per_hour, shown.per_day) == ("EUR", "6.28", "150.72")
    assert shown.per_replica_hour == "2.093"  # 6.28 / 3
    assert shown.message == (
        f"2 pods at 2.66 EUR: 4 cpu x 0.04 (core) + 1 {GPU} x 2.50 (h100);"
        f" 1 pod at 0.96 EUR: 4 cpu x 0.04 (core) + 1 {GPU} x 0.80 (other); prices of policy prod"
    )


def test_pods_cost_from_binding_to_their_end() -> None:
    subject = world("a", "b", "c")
    first, second, third = subject.pods
    waiting, leaving = replace(first, scheduled=False, node=None), replace(second, terminating=True)
    subject.pods = (waiting, leaving, third)
    shown = cost(subject)
    assert shown.per_hour == "3.62"  # 2.66 leaves, 0.96 stays
    assert shown.per_replica_hour == "0.96"


def test_a_pool_without_pods_costs_nothing() -> None:
    subject = world("a")
    subject.pods = ()
    shown = cost(subject)
    assert (shown.per_hour, shown.per_replica_hour) == ("0.00", None)
    assert shown.message == "no pod is bound to a node; prices of policy prod"


def test_a_pod_without_a_price_leaves_the_cost_unknown() -> None:
    shown = cost(world("a", "c", policies=(priced(price("h100", 3, gpu="h100")),)))
    assert (shown.currency, shown.per_hour, shown.per_day) == ("EUR", None, None)
    assert shown.message == (
        f"the price of 1 of 2 pods is unknown: no price applies to {GPU}:"
        " add one to spec.pricing of policy prod"
    )


def test_policies_that_disagree_leave_the_cost_unknown() -> None:
    other = priced(price("all", 9), name="other")
    shown = cost(world("a", policies=(priced(), other)))
    assert shown.currency is shown.per_hour is None
    assert "policies other and prod of equal priority" in shown.message


def test_without_rights_to_nodes_the_pods_own_selector_and_plain_prices_apply() -> None:
    subject = world("a", "b")
    subject.nodes = NodeView(problem="the operator may not read nodes")
    shown = cost(subject)
    assert shown.per_hour == "1.92"  # 2 x (0.80 + 4 x 0.04)
    assert shown.message.endswith(
        "; prices by node label apply only to labels in spec.template.nodeSelector:"
        " the operator may not read nodes"
    )
    subject.pods = tuple(replace(each, node_selector=H100) for each in subject.pods)
    assert cost(subject).per_hour == "5.32"
    subject.policies = (priced(price("all", 1)),)
    assert "nodeSelector" not in cost(subject).message


def test_a_terminating_pod_of_an_earlier_template_costs_what_it_requested() -> None:
    subject = world("a")
    subject.edit_spec(accelerator={"resourceName": GPU, "count": 2})
    old = subject.pods[0]
    subject.settle()
    new: PodObject = pod("new", revision=subject.revision, node="b")
    subject.pods = (old, new)
    subject.nodes = NodeView({"a": H100, "b": H100})
    assert cost(subject).per_hour == "7.82"  # (2.50 + 0.16) + (2 x 2.50 + 0.16)


def served(
    subject: NodeWorld, seconds: int, requests: int, tokens: int | None = None, lines: float = 0
) -> PoolPlan:
    """Let the first pod complete `requests` of one row and `lines` of batch work, and generate `tokens`, a second."""
    plan = subject.run()
    for passed in range(0, seconds + 1, 5):
        total = requests * passed
        generation = (
            None if tokens is None else GenerationSample(0, (), generated_tokens=tokens * passed)
        )
        sample = PodSample(
            subject.pods[0].uid, subject.now, requests_settled=total + 7 * passed,
            request_duration_buckets=((0.5, 0), (inf, total)), generation=generation,
            interactive_served=total, batch_served=lines * passed,
            requests_completed=total + lines * passed,
        )  # fmt: skip
        subject.signals = PoolSignals(SignalSource.PODS, (sample,))
        plan = subject.settle()
    return plan


def test_requests_and_tokens_cost_the_hour_at_the_rate_of_ten_minutes() -> None:
    shown = known(served(world("a", "b", "c"), 900, requests=10, tokens=800).status.cost)
    # 10/s are 36,000 an hour: 1000 x 6.28 / 36,000; 800/s are 2,880,000: 6.28 / 2.88
    assert (shown.per_thousand_requests, shown.per_million_tokens) == ("0.1744", "2.181")


def test_batch_work_costs_its_share_of_what_was_served_in_ten_minutes() -> None:
    shown = known(served(world("a", "b", "c"), 900, requests=10, lines=10 / 3).status.cost)
    # 3.33 of 13.33 rows/s: 0.25 x 6.28
    assert (shown.batch_work_percent, shown.batch_work_per_hour) == ("25.0", "1.57")
    assert shown.per_hour == "6.28"
    assert shown.per_thousand_requests == "0.1308", "a line is a request: 1000 x 6.28 / 48,000"
    alone = known(served(world("a"), 900, requests=10).status.cost)
    assert alone.batch_work_percent is alone.batch_work_per_hour is None


def test_rejected_requests_and_rows_without_tokens_have_no_cost() -> None:
    shown = known(served(world("a"), 900, requests=0).status.cost)
    assert shown.per_thousand_requests is shown.per_million_tokens is None


def test_a_rate_is_known_after_a_minute() -> None:
    assert known(served(world("a"), 30, requests=10).status.cost).per_thousand_requests is None
    assert known(served(world("a"), 90, requests=10).status.cost).per_thousand_requests


def test_a_rate_is_known_a_minute_after_the_clock_was_set_back() -> None:
    subject = world("a")
    served(subject, 90, requests=10)
    subject.now -= 7200
    assert known(served(subject, 90, requests=10).status.cost).per_thousand_requests


def test_an_unchanged_pool_keeps_its_price_and_a_changed_node_does_not() -> None:
    subject = world("a")
    subject.run()

    def price() -> object:
        state = planner_state(subject.states[subject.pool.uid], subject.now)
        return known(state.memoized.price).value

    before = price()
    subject.nodes = NodeView(dict(subject.nodes.labels))
    subject.run()
    assert price() is before
    subject.nodes = NodeView({"a": L4})
    assert cost(subject).per_hour == "0.96"
    subject.policies = (priced(ALL_AT_1),)
    assert cost(subject).per_hour == "1.00"


@settings(max_examples=60, deadline=None)
@given(
    st.decimals("0.01", 100_000, places=2),
    st.floats(0.001, 1e6),
)
def test_unit_costs_times_the_units_of_an_hour_are_the_hour(hour: Decimal, rate: float) -> None:
    for units in (THOUSAND, MILLION):
        each = Decimal(known(per_units(hour, rate, units)))
        again = each * Decimal(rate) * 3600 / units
        assert abs(again - hour) <= hour / 1000 + Decimal(rate) * 3600 / units * Decimal("1e-12")


@settings(max_examples=30, deadline=None)
@given(st.lists(st.sampled_from(["a", "c"]), min_size=1, max_size=6))
def test_the_cost_of_a_pool_is_that_of_its_parts(nodes: list[str]) -> None:
    names = [f"{node}" for node in nodes]
    expected = sum(Decimal("2.66") if name == "a" else Decimal("0.96") for name in names)
    assert Decimal(known(cost(world(*names)).per_hour)) == expected
