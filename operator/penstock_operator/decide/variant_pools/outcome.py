"""`VariantsOutcome`: everything that a pass decided about a pool with variants."""

from collections.abc import Mapping
from dataclasses import dataclass

from penstock_api.conditions import Condition
from penstock_api.types.status import BoundedField
from penstock_operator.decide.gateway import GatewayPlan
from penstock_operator.decide.manifests.metadata import service_name
from penstock_operator.decide.manifests.writes import foreign
from penstock_operator.decide.spec.effective import EffectiveSpec
from penstock_operator.decide.variant_pools.counts import VariantCounts
from penstock_operator.decide.variant_pools.writes import name_conflicts
from penstock_operator.observed import PoolView, VariantView


@dataclass(frozen=True, slots=True)
class VariantsOutcome:
    """The decisions about a pool with variants in one pass, before they are reported."""

    view: PoolView
    effective: EffectiveSpec
    counts: VariantCounts
    capacities: Mapping[str, float]
    """Rows a second of one replica within the objective, by variant."""
    pools: Mapping[str, VariantView]
    """The variants' pools by the name of the variant, those of removed variants included."""
    gateway: GatewayPlan
    weights: Mapping[str, int]
    """Weights of the variants' pods at the gateway; empty until a variant has been measured."""
    prices: Mapping[str, float]
    """Price of an hour of one replica, by variant; those that are known."""
    bounded: tuple[BoundedField, ...] = ()
    """minReplicas of variants that the bound of a policy lowers."""

    @property
    def desired(self) -> int:
        """Return the replicas of all variants together."""
        return sum(self.counts.replicas.values())

    @property
    def ready(self) -> int:
        """Return the Ready pods of all variants together."""
        return sum(each.pool.status.ready_replicas or 0 for each in self.pools.values())

    @property
    def conflicts(self) -> tuple[str, ...]:
        """Return kind and name of each object of another owner under a child's name."""
        service = self.view.children.get(("Service", service_name(self.view.pool)))
        taken = (f"Service {service.name}",) if service and foreign(service, self.view.pool) else ()
        return (*taken, *(f"InferencePool {name}" for name in name_conflicts(self.view)))

    def condition_of(self, name: str, type: str) -> Condition | None:
        """Return a condition of a variant's pool; None if it has none."""
        each = self.pools.get(name)
        conditions = (each.pool.status.conditions if each is not None else None) or ()
        return next((item for item in conditions if item.type == type), None)
