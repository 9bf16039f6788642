"""Which prices apply to a pod, and what they add up to."""

from decimal import Decimal
from typing import Any

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from pydantic import ValidationError

from penstock_api.types.pricing import Pricing
from penstock_operator.decide.cost.prices import (
    PodPrice,
    PodResources,
    PriceList,
    UnknownPrice,
    depends_on_node,
    money,
    needs_nodes,
    plain,
    pod_price,
    pod_resources,
    price_list,
)
from tests.unit.operator.decide.world import policy

GPU = "nvidia.com/gpu"
H100 = {"gpu": "h100"}
SPOT = {"gpu": "h100", "capacity": "spot"}


def price(name: str, per_hour: int | str, resource: str = GPU, **labels: str) -> dict[str, Any]:
    return {"name": name, "resourceName": resource, "perHour": per_hour, "nodeSelector": labels}


def prices(*entries: dict[str, Any]) -> PriceList:
    pricing = Pricing.model_validate({"currency": "EUR", "prices": entries})
    return PriceList("prod", pricing.currency, pricing.prices)


def resources(**counts: str) -> PodResources:
    return PodResources({name.replace("gpu", GPU): Decimal(n) for name, n in counts.items()})


def per_hour(priced: PodPrice | UnknownPrice) -> Decimal:
    assert isinstance(priced, PodPrice), priced
    return priced.per_hour


def why(priced: object) -> str:
    assert isinstance(priced, UnknownPrice), priced
    return priced.reason


LIST = prices(
    price("h100", "2.50", gpu="h100"),
    price("spot", "0.90", **SPOT),
    price("other", "0.80"),
    price("core", "0.04", "cpu"),
)


@pytest.mark.parametrize(
    ("labels", "expected"),
    [(H100, "2.50"), (SPOT, "0.90"), ({"capacity": "spot"}, "0.80"), ({}, "0.80")],
)
def test_the_price_with_the_most_labels_that_the_node_has_applies(
    labels: dict[str, str], expected: str
) -> None:
    assert per_hour(pod_price(LIST, resources(gpu="1"), labels)) == Decimal(expected)


@pytest.mark.parametrize(
    ("labels", "depends"),
    [
        ({}, True),
        ({"gpu": "h100"}, True),
        ({"gpu": "l4"}, False),
        ({"gpu": "h100", "spot": "true"}, False),
        ({"gpu": "h100", "spot": "false", "zone": "b"}, False),
    ],
)
def test_a_price_may_depend_on_labels_of_the_node_that_are_not_known(
    labels: dict[str, str], *, depends: bool
) -> None:
    listed = prices(
        price("any", "0.80"),
        price("h100", "2.50", gpu="h100"),
        price("spot", "1.00", gpu="h100", spot="true"),
        price("same", "0.80", zone="a"),
        price("core", "0.04", "cpu"),
    )
    assert depends_on_node(listed, resources(gpu="1", cpu="4"), labels) is depends
    assert not depends_on_node(listed, resources(cpu="4"), labels)


def test_a_pod_costs_the_sum_of_its_priced_resources() -> None:
    priced = pod_price(LIST, resources(gpu="2", cpu="4", memory="16"), H100)
    assert per_hour(priced) == 2 * Decimal("2.50") + 4 * Decimal("0.04")
    assert str(priced) == f"4 cpu x 0.04 (core) + 2 {GPU} x 2.50 (h100)"


def test_a_device_without_a_price_leaves_the_whole_pod_unknown() -> None:
    only = prices(price("core", "0.04", "cpu"), price("h100", 3, gpu="h100"))
    priced = why(pod_price(only, resources(gpu="1", cpu="4"), {"gpu": "l4"}))
    assert priced == f"no price applies to {GPU}: add one to spec.pricing of policy prod"


def test_a_pod_of_which_nothing_is_priced_says_what_is_missing() -> None:
    gpus = prices(price("h100", 3))
    assert "no price applies to cpu or memory" in why(
        pod_price(gpus, resources(cpu="1", memory="2"), {})
    )
    assert "spec.template.container.resources" in why(pod_price(gpus, PodResources({}), {}))


def test_two_prices_that_apply_equally_are_not_chosen_between() -> None:
    tied = prices(price("a", 1, zone="z"), price("b", 2, gpu="h100"))
    labels = {"zone": "z", "gpu": "h100"}
    assert "prices a and b" in why(pod_price(tied, resources(gpu="1"), labels))
    same = prices(price("a", "1.0", zone="z"), price("b", 1, gpu="h100"))
    assert per_hour(pod_price(same, resources(gpu="1"), labels)) == 1


def test_devices_of_claims_have_no_price() -> None:
    assert "resourceClaims" in why(pod_price(LIST, PodResources({}, claims=True), {}))


def template(**resources: Any) -> dict[str, Any]:
    return {"spec": {"containers": [{"name": "runtime", "resources": resources}]}}


def test_requests_are_read_from_the_template_and_limits_stand_in() -> None:
    both = template(
        requests={"cpu": "1500m", "memory": "512Mi"}, limits={GPU: "2", "cpu": "2", "memory": "1Gi"}
    )
    assert pod_resources(both).counts == {GPU: 2, "cpu": Decimal("1.5"), "memory": Decimal("0.5")}
    limits = template(limits={"cpu": "2", "memory": "3Gi"})
    assert pod_resources(limits).counts == {"cpu": 2, "memory": 3}
    assert pod_resources(template(claims=[{"name": "gpu"}])).claims
    assert pod_resources(None) == PodResources({})


def pricing(currency: str = "EUR", *entries: dict[str, Any]) -> dict[str, Any]:
    return {"currency": currency, "prices": entries or (price("a", 1), price("b", 2, x="y"))}


def test_the_policy_with_the_highest_priority_sets_all_prices() -> None:
    high, low = policy("high", priority=2, pricing=pricing("USD")), policy("low", pricing=pricing())
    priced = price_list((high, low, policy("without")))
    assert isinstance(priced, PriceList)
    assert (priced.policy, priced.currency, priced.by_node) == ("high", "USD", True)
    assert price_list((policy("without"),)) is None


def test_different_prices_of_equal_priority_apply_in_no_part() -> None:
    a, b = policy("a", pricing=pricing()), policy("b", pricing=pricing("USD"))
    assert "policies a and b of equal priority" in why(price_list((a, b)))
    reordered = pricing("EUR", price("b", 2, x="y"), price("a", 1))
    assert isinstance(price_list((a, policy("c", pricing=reordered))), PriceList)


def test_nodes_are_needed_only_for_prices_by_node_label_of_the_pool() -> None:
    team = {"namespaceSelector": {"matchLabels": {"team": "a"}}}
    by_node = policy("a", pricing=pricing(), **team)
    flat = policy("b", pricing=pricing("EUR", price("a", 1)))
    assert needs_nodes({}, {"team": "a"}, (by_node,))
    assert not needs_nodes({}, {"team": "b"}, (by_node,))
    assert not needs_nodes({}, {}, (flat,))
    assert not needs_nodes({}, {}, ())


@pytest.mark.parametrize("wrong", [-1, "-0.5", "1e3", "free", "1.", "0.1234567", "nan"])
def test_what_is_not_a_price_is_refused(wrong: int | str) -> None:
    with pytest.raises(ValidationError, match="perHour"):
        Pricing.model_validate({"currency": "EUR", "prices": [price("a", wrong)]})


@pytest.mark.parametrize(
    ("value", "text"),
    [
        ("0", "0.00"), ("7.5", "7.50"), ("180", "180.00"), ("0.20833", "0.2083"), ("1.04167", "1.042"),
        ("0.0000012", "0.0000012"), ("12345.678", "12345.68"), ("2", "2.00"),
    ],
)  # fmt: skip
def test_amounts_have_two_decimals_or_four_digits(value: str, text: str) -> None:
    assert money(Decimal(value)) == text


AMOUNTS = st.decimals(0, 10_000, places=6, allow_nan=False)
LABELS = st.dictionaries(st.sampled_from("abc"), st.sampled_from("xy"), max_size=3)


@settings(max_examples=50, deadline=None)
@given(AMOUNTS)
def test_an_amount_is_rounded_by_less_than_a_thousandth_or_a_cent(value: Decimal) -> None:
    assert abs(Decimal(money(value)) - value) <= max(value / 1000, Decimal("0.000001"))


@settings(max_examples=50, deadline=None)
@given(st.lists(st.tuples(AMOUNTS, LABELS), min_size=1, max_size=6), LABELS, st.integers(1, 8))
def test_a_price_is_one_that_applies_and_scales_with_the_devices(
    entries: list[tuple[Decimal, dict[str, str]]], node: dict[str, str], count: int
) -> None:
    listed = prices(
        *(price(f"p{i}", plain(each), **labels) for i, (each, labels) in enumerate(entries))
    )
    applying = {each for each, labels in entries if labels.items() <= node.items()}
    priced = pod_price(listed, resources(gpu=str(count)), node)
    if isinstance(priced, PodPrice):
        assert priced.per_hour / count in applying
        more = {**node, "unrelated": "label"}
        assert pod_price(listed, resources(gpu=str(count)), more) == priced
    else:
        most = max(
            (len(labels) for _, labels in entries if labels.items() <= node.items()), default=-1
        )
        best = {
            e for e, labels in entries if len(labels) == most and labels.items() <= node.items()
        }
        assert len(best) != 1
