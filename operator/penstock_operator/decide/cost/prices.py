"""The price of an hour of a pod: the policy's prices that apply to its resources and to the labels of its node. Pure.

A pod costs the sum over its resources that have a price. The price of a resource is the one with the most node labels among
those whose labels the node has. A price is unknown, and never estimated, if a device has none, if no resource of the pod has
one, or if several apply equally.
"""

from collections.abc import Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass
from decimal import Decimal
from itertools import groupby

from penstock_api.types.fields import amount
from penstock_api.types.pricing import Pricing, ResourcePrice
from penstock_operator.decide.budgets.devices import devices, runtime_container
from penstock_operator.decide.manifests.metadata import Manifest
from penstock_operator.decide.manifests.workload import pods_in_replica
from penstock_operator.decide.spec.selectors import matching, priority
from penstock_operator.observed import PolicyObject

CPU, MEMORY = "cpu", "memory"
GIB = 2**30
PRIORITY_REMEDY = "raise spec.priority of one"


@dataclass(frozen=True, slots=True)
class PriceList:
    """The prices in force for a pool."""

    policy: str
    currency: str
    prices: tuple[ResourcePrice, ...]

    @property
    def by_node(self) -> bool:
        """Whether a price depends on the labels of the node."""
        return any(price.node_selector for price in self.prices)


@dataclass(frozen=True, slots=True)
class UnknownPrice:
    """Why a price is unknown, with the remedy."""

    reason: str


@dataclass(frozen=True, slots=True)
class PodResources:
    """What a pod requests."""

    counts: Mapping[str, Decimal]
    """Devices, cores and GiB, by resource."""
    claims: bool = False
    """Whether it also uses devices of ResourceClaims, which have no resource name."""


@dataclass(frozen=True, slots=True)
class PricedItem:
    """One resource of a pod, with its price."""

    count: Decimal
    price: ResourcePrice

    @property
    def per_hour(self) -> Decimal:
        """Price of an hour."""
        return self.count * Decimal(str(self.price.per_hour))

    def __str__(self) -> str:
        """Return the factors, such as `2 nvidia.com/gpu x 2.50 (h100)`."""
        price = self.price
        return f"{plain(self.count)} {price.resource_name} x {price.per_hour} ({price.name})"


@dataclass(frozen=True, slots=True)
class PodPrice:
    """The price of an hour of a pod, by resource."""

    items: tuple[PricedItem, ...]

    @property
    def per_hour(self) -> Decimal:
        """Price of an hour."""
        return sum((item.per_hour for item in self.items), Decimal(0))

    def __str__(self) -> str:
        """Return the sum with its factors."""
        return " + ".join(map(str, self.items))


def price_list(policies: Sequence[PolicyObject]) -> PriceList | UnknownPrice | None:
    """Return the prices of the policy with the highest priority (`policies`: highest first); None if no policy has any."""
    priced = [
        (policy, policy.spec.pricing) for policy in policies if policy.spec.pricing is not None
    ]
    if not priced:
        return None
    _, group = next(groupby(priced, key=lambda item: priority(item[0])))
    top = list(group)
    policy, pricing = top[0]
    if any(not _equal(pricing, other) for _, other in top):
        names = " and ".join(other.name for other, _ in top)
        return UnknownPrice(
            f"policies {names} of equal priority have different prices: {PRIORITY_REMEDY}"
        )
    return PriceList(policy.name, pricing.currency, pricing.prices)


def needs_nodes(
    labels: Mapping[str, str], namespace_labels: Mapping[str, str], policies: Iterable[PolicyObject]
) -> bool:
    """Return whether a price of a pool of `labels` depends on the labels of a node."""
    priced = [policy for policy in policies if policy.spec.pricing is not None]
    prices = price_list(matching(labels, namespace_labels, priced)) if priced else None
    return isinstance(prices, PriceList) and prices.by_node


def pod_resources(template: Manifest | None) -> PodResources:
    """Return what a replica of `template` requests; an absent request of cpu or memory equals its limit."""
    if not template:
        return PodResources({})
    resources = runtime_container(template).get("resources", {})
    asked = {**resources.get("limits", {}), **resources.get("requests", {})}
    pods = pods_in_replica(template)
    counts = {name: Decimal(count) for name, count in devices(template).items()}
    if CPU in asked:
        counts[CPU] = pods * amount(asked[CPU])
    if MEMORY in asked:
        counts[MEMORY] = pods * amount(asked[MEMORY]) / GIB
    return PodResources(counts, bool(resources.get("claims")))


def pod_price(
    prices: PriceList, resources: PodResources, labels: Mapping[str, str]
) -> PodPrice | UnknownPrice:
    """Return the price of an hour of a pod on a node with `labels`."""
    where = f"spec.pricing of policy {prices.policy}"
    if resources.claims:
        return UnknownPrice("devices of resourceClaims have no resource name to set a price for")
    items = []
    for resource, count in sorted(resources.counts.items()):
        best = list(_best(prices, resource, labels))
        if len({Decimal(str(price.per_hour)) for price in best}) > 1:
            names = " and ".join(price.name for price in best)
            return UnknownPrice(
                f"prices {names} of {where} both apply to {resource}: add a node label to one"
            )
        if best:
            items.append(PricedItem(count, best[0]))
        elif "/" in resource and count:
            return UnknownPrice(f"no price applies to {resource}: add one to {where}")
    if not items:
        return UnknownPrice(_nothing_priced(resources, where))
    return PodPrice(tuple(items))


def depends_on_node(prices: PriceList, resources: PodResources, labels: Mapping[str, str]) -> bool:
    """Return whether a node with further labels than `labels` may have another price for one of the resources."""
    for resource in resources.counts:
        best = list(_best(prices, resource, labels))
        amounts = {Decimal(str(price.per_hour)) for price in best}
        most = max((len(price.node_selector or {}) for price in best), default=0)
        for price in prices.prices:
            wanted = price.node_selector or {}
            fits = all(labels.get(key, value) == value for key, value in wanted.items())
            narrower = price.resource_name == resource and len(wanted) >= most and fits
            if narrower and Decimal(str(price.per_hour)) not in amounts:
                return True
    return False


def money(value: Decimal) -> str:
    """Return an amount with two decimals, or with four significant digits if it is below 10."""
    digits = max(2, 3 - value.adjusted()) if value else 2
    text = f"{value:.{min(digits, 12)}f}"
    whole, _, decimals = text.partition(".")
    return f"{whole}.{decimals[:2]}{decimals[2:].rstrip('0')}"


def plain(number: Decimal) -> str:
    """Return a number without an exponent or trailing zeros."""
    return f"{number.normalize():f}"


def _best(prices: PriceList, resource: str, labels: Mapping[str, str]) -> Iterator[ResourcePrice]:
    """Yield the prices of a resource whose labels the node has, those with the most labels."""
    matching = [
        price
        for price in prices.prices
        if price.resource_name == resource and (price.node_selector or {}).items() <= labels.items()
    ]
    most = max((len(price.node_selector or {}) for price in matching), default=0)
    return (price for price in matching if len(price.node_selector or {}) == most)


def _nothing_priced(resources: PodResources, where: str) -> str:
    if not resources.counts:
        return "the pods request no device, cpu or memory: set spec.template.container.resources of the pool"
    asked = " or ".join(sorted(resources.counts))
    return f"no price applies to {asked}: add one to {where}"


def _equal(pricing: Pricing, other: Pricing) -> bool:
    return pricing.currency == other.currency and _by_name(pricing) == _by_name(other)


def _by_name(pricing: Pricing) -> Mapping[str, ResourcePrice]:
    return {price.name: price for price in pricing.prices}
