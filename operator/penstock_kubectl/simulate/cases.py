"""`PolicyCase`: a pool under a set of policies, as the inputs of a simulation. Pure."""

from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, replace
from math import exp
from types import MappingProxyType
from typing import Any, Final, NamedTuple

from penstock_api.pod_contract import CurveSums, LimitsUpdate
from penstock_api.types.scaling import ScalingMode
from penstock_api.types.service import RoutingMode
from penstock_kubectl.errors import NotEnoughData
from penstock_kubectl.pool_context import PoolContext, previous_defaults, values_of
from penstock_operator.decide.limits import desired_limits
from penstock_operator.decide.manifests.pod_template.environment import accelerator
from penstock_operator.decide.scaling import modes
from penstock_operator.decide.scaling.decision import LAWS
from penstock_operator.decide.scaling.law import Decision, Law, LawInput
from penstock_operator.decide.scaling.reasons import ReplicasReason
from penstock_operator.decide.scaling.signals.service_curve import fit
from penstock_operator.decide.scaling.zero import never_at_zero
from penstock_operator.decide.spec.effective import GUARDS, EffectiveSpec, effective, in_force
from penstock_operator.decide.spec.live_fields import BUILT_IN, Fields
from penstock_operator.decide.spec.origins import ROLLBACK
from penstock_operator.decide.spec.schedules import Opening, openings
from penstock_operator.decide.spec.selectors import matching
from penstock_operator.observed import PolicyObject
from penstock_simulator.batch_time import ServiceModel
from penstock_simulator.scenario import EPOCH, ClientBehavior, ColdStarts, Routing, Scenario

AS_IT_IS = "as it is"
NORMAL_P90 = 1.2816
STARTUP_SIGMA = 0.5
"""Standard deviation of the logarithm of start-up time, as in the law's prior."""
ROUTINGS: Final[Mapping[RoutingMode, Routing]] = {
    RoutingMode.SERVICE: Routing.CONNECTION,
    RoutingMode.GATEWAY: Routing.LEAST_REQUEST,
}
FIRST_STARTUP_P90 = 120.0
"""Start-up time in seconds before any was observed, as in the law's prior."""


class CaseLabels(NamedTuple):
    """What the table says of a simulated case."""

    name: str
    law: str
    replicas: str
    """The range of the count, or the fixed one."""


@dataclass(frozen=True, slots=True)
class PolicyCase:
    """The pool under one set of policies."""

    name: str
    subject: PoolContext
    policies: tuple[PolicyObject, ...]
    """Those that select the pool."""
    effective: EffectiveSpec
    """Effective spec outside of all schedules."""
    began: float
    """Start of the arrivals in Unix seconds, which determines the open schedules."""
    rolled_back: Fields
    """Values in force in place of the requested ones."""

    @property
    def moves(self) -> bool:
        """Whether the law sets the replica count; otherwise it is `count`."""
        return self.effective.scaling_mode is ScalingMode.AUTO

    @property
    def count(self) -> int:
        """Replica count if the law does not set it: the frozen count in Hold, else `spec.replicas`; at least 1."""
        desired = self.subject.pool.status.desired_replicas
        live = self.effective.replicas if desired is None else desired
        return max(modes.base_replicas(self.effective, live), 1)

    @property
    def labels(self) -> CaseLabels:
        """The case as the table shows it."""
        law = self.effective.law
        replicas = f"{law.min_replicas}-{law.max_replicas}" if self.moves else f"{self.count}"
        return CaseLabels(self.name, self.effective.algorithm.value, replicas)

    @property
    def published(self) -> LimitsUpdate | None:
        """Limits in force, with the cap that mode Recommend keeps; None: no cap was published yet."""
        batch = self.subject.pool.status.batch
        if batch is None or not batch.cap:
            return None
        limits = desired_limits(self.effective, batch.cap)
        return LimitsUpdate(**limits.model_dump(), generation=batch.generation or 1)

    @property
    def law(self) -> Law[Any]:
        """The law of the pool, restricted by the pool's modes."""
        law = LAWS[self.effective.algorithm]
        if any(policy.spec.schedules for policy in self.policies):
            law = Scheduled(law, self.floor)
        return Granted(law, self)

    def floor(self, passed: float) -> int:
        """Return minReplicas `passed` seconds after the start, including the schedules open then."""
        open_then = openings(self.policies, self.began + passed)
        if not open_then:
            return self.effective.law.min_replicas
        then = _spec(self.subject, self.policies, self.rolled_back, open_then)
        return never_at_zero(then).law.min_replicas


class Granted:
    """A law whose decisions the pool's two modes restrict."""

    def __init__(self, law: Law[Any], case: PolicyCase) -> None:
        self.name = law.name
        self._law = law
        self._case = case
        self._published = case.published

    def initial(self, now: float) -> Any:
        """Return the initial state of the law."""
        return self._law.initial(now)

    def step(self, state: Any, observed: LawInput, now: float) -> tuple[Any, Decision]:
        """Return the law's step under the pool's settings, restricted by the modes."""
        spec, case = self._case.effective, self._case
        observed = observed._replace(
            settings=never_at_zero(spec).law, fixed_cap=modes.fixed_cap(spec, self._published)
        )
        state, decision = self._law.step(state, observed, now)
        granted = decision._replace(
            cap=modes.granted_cap(spec, decision, self._published),
            replicas=modes.granted_replicas(spec, decision, case.count),
        )
        if not case.moves:
            granted = granted._replace(replicas_term=ReplicasReason.MANUAL)
        return state, granted


class Scheduled:
    """A law whose minReplicas follows the schedules."""

    def __init__(self, law: Law[Any], floor: Callable[[float], int]) -> None:
        """`floor` returns minReplicas by the seconds since the start."""
        self.name = law.name
        self._law = law
        self._floor = floor

    def initial(self, now: float) -> Any:
        """Return the initial state of the law."""
        return self._law.initial(now)

    def step(self, state: Any, observed: LawInput, now: float) -> tuple[Any, Decision]:
        """Return the law's step under the minReplicas of that time."""
        settings = replace(observed.settings, min_replicas=self._floor(now - EPOCH))
        return self._law.step(state, observed._replace(settings=settings), now)


class ObservedLaw:
    """A law under another name that reports the progress of its simulation."""

    def __init__(self, name: str, law: Law[Any], report: Callable[[float], None]) -> None:
        """`report` is called with the seconds since the start, every tick."""
        self.name = name
        self._law = law
        self._report = report

    def initial(self, now: float) -> Any:
        """Return the initial state of the law."""
        return self._law.initial(now)

    def step(self, state: Any, observed: LawInput, now: float) -> tuple[Any, Decision]:
        """Return the step of the law."""
        self._report(now - EPOCH)
        return self._law.step(state, observed, now)


@dataclass(frozen=True, slots=True)
class WhatIfRequest:
    """Options of the user that apply to every case."""

    mode: ScalingMode | None
    """Scaling mode; None: the pool's own."""
    began: float


def as_it_is(subject: PoolContext, options: WhatIfRequest) -> PolicyCase:
    """Return the pool under its own policies, with the values in force that a rollback put in place of requested ones."""
    rolled_back = values_of(subject, ROLLBACK)
    return case(AS_IT_IS, subject, subject.policies, options, rolled_back)


def case(
    name: str,
    subject: PoolContext,
    policies: Sequence[PolicyObject],
    options: WhatIfRequest,
    rolled_back: Fields = MappingProxyType({}),
) -> PolicyCase:
    """Return the pool under those of `policies` that select it."""
    selected = matching(subject.pool.labels, subject.namespace_labels, policies)
    spec = _spec(subject, selected, rolled_back)
    if subject.pool.spec.variants or not _may_be_at_zero(spec, selected):
        spec = never_at_zero(spec)
    spec = spec if options.mode is None else replace(spec, scaling_mode=options.mode)
    return PolicyCase(name, subject, selected, spec, options.began, rolled_back)


def _spec(
    subject: PoolContext,
    policies: Sequence[PolicyObject],
    rolled_back: Fields,
    open_now: dict[str, Opening] | None = None,
) -> EffectiveSpec:
    """Return the effective spec, with the values that stay through ties of policies.

    A guard that was rolled back to its built-in value counts as unset, since the status has no guards.
    """
    previous = previous_defaults(subject)
    spec = effective(subject.pool, subject.namespace_labels, policies, previous, open_now)
    guarded = spec.guarded | (GUARDS & rolled_back.keys())
    unset = {path for path in guarded if rolled_back.get(path) == BUILT_IN[path]}
    return in_force(spec, {**spec.fields, **rolled_back}, guarded - unset)


def _may_be_at_zero(spec: EffectiveSpec, policies: Sequence[PolicyObject]) -> bool:
    """Return whether zero replicas are simulated: behind a gateway, which holds requests, and without schedules."""
    scheduled = any(policy.spec.schedules for policy in policies)
    return spec.routing_mode is RoutingMode.GATEWAY and not scheduled


def scenario(
    case: PolicyCase, service: ServiceModel, startup_p90: float, start_replicas: int, seed: int
) -> Scenario:
    """Return the scenario of one case. Start-up times are lognormal around the observed one; no start fails.

    Clients of a pool that may be at zero wait as long as its gateway holds their requests.
    """
    spec = case.effective
    settings, clients = spec.law, ClientBehavior()
    if settings.min_replicas == 0:
        clients = replace(clients, timeout_seconds=float(spec.hold.max_seconds))
    if not case.moves:
        settings = replace(settings, min_replicas=case.count, max_replicas=case.count)
    median = startup_p90 / exp(NORMAL_P90 * STARTUP_SIGMA)
    return Scenario(
        service=service,
        settings=settings,
        start_replicas=min(max(start_replicas, settings.min_replicas), settings.max_replicas),
        cold=ColdStarts(median_seconds=median, sigma=STARTUP_SIGMA, failing_share=0.0),
        routing=ROUTINGS[spec.routing_mode],
        clients=clients,
        idle_seconds=spec.idle_seconds,
        max_queue_depth=spec.max_queue_depth,
        seed=seed,
    )


def service_of(
    subject: PoolContext, curve: tuple[float, float] | None, sums: CurveSums | None
) -> ServiceModel:
    """Return the service model: from `curve` (milliseconds), else from the sums of the history, else from the status.

    Raises:
        NotEnoughData: none of them is known.
    """
    if curve is not None:
        return ServiceModel(curve[0] / 1000, curve[1] / 1000)
    line = None if sums is None else fit(sums)
    if line is not None:
        return ServiceModel(line.a, line.c)
    status = subject.pool.status.scaling
    if status is not None and status.curve is not None:
        a, c = float(status.curve.intercept_milliseconds), float(status.curve.milliseconds_per_row)
        return ServiceModel(a / 1000, c / 1000)
    raise NotEnoughData(
        "the pool's service curve is not known yet: set t(b) = a + c*b by --curve A,C in ms"
    )


def startup_p90(subject: PoolContext, requested: float | None) -> float:
    """Return the 90th percentile of start-up time in seconds: as requested, else as observed, else the prior."""
    status = subject.pool.status.scaling
    if requested is not None:
        return requested
    if status is not None and status.startup_p90_seconds is not None:
        return float(status.startup_p90_seconds)
    return FIRST_STARTUP_P90


def devices(subject: PoolContext) -> int:
    """Return the devices per replica; 1 for a pool on CPUs."""
    return max(accelerator(subject.pool).count, 1) * subject.pool.spec.pods_per_replica
