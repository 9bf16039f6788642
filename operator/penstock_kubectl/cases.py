"""From a pool and its policies to what a simulation is given. Pure."""

from collections.abc import Callable, Sequence
from dataclasses import dataclass, replace
from math import exp
from typing import Any

from penstock_api.limits import CurveSums, LimitsUpdate
from penstock_api.types.live import ScalingMode
from penstock_kubectl.errors import NotEnoughData
from penstock_kubectl.pool_context import PoolContext
from penstock_operator.decide.limits import desired_limits
from penstock_operator.decide.manifests.environment import accelerator
from penstock_operator.decide.scaling import modes
from penstock_operator.decide.scaling.decision import LAWS
from penstock_operator.decide.scaling.law import Decision, Law, LawInput
from penstock_operator.decide.scaling.reasons import ReplicasReason
from penstock_operator.decide.scaling.signals.service_curve import fit
from penstock_operator.decide.spec.effective import EffectiveSpec, effective
from penstock_operator.decide.spec.schedules import openings
from penstock_operator.observed import PolicyObject
from penstock_simulator.scenario import EPOCH, ColdStarts, Scenario
from penstock_simulator.service import ServiceModel

NORMAL_P90 = 1.2816
STARTUP_SIGMA = 0.5
"""Of the logarithm, as the law's own prior has it."""
FIRST_STARTUP_P90 = 120.0
"""Where none was watched yet, as the law's own prior has it."""


@dataclass(frozen=True, slots=True)
class PolicyCase:
    """One way of governing the pool, to be simulated."""

    name: str
    subject: PoolContext
    policies: tuple[PolicyObject, ...]
    effective: EffectiveSpec
    """Outside of all schedules."""
    began: float
    """When the arrivals begin, in Unix seconds: schedules open by it."""

    @property
    def moves(self) -> bool:
        """Whether the law's count is followed; else it is `count`."""
        return self.effective.scaling_mode is ScalingMode.AUTO

    @property
    def count(self) -> int:
        """Return the count where the law's is not followed: in Hold the frozen one, else `spec.replicas`; at least one."""
        desired = self.subject.pool.status.desired_replicas
        live = self.effective.replicas if desired is None else desired
        return max(modes.base_replicas(self.effective, live), 1)

    @property
    def published(self) -> LimitsUpdate | None:
        """Return the limits in force, with the cap that mode Recommend freezes; None: no cap was published yet."""
        batch = self.subject.pool.status.batch
        if batch is None or not batch.cap:
            return None
        limits = desired_limits(self.effective, batch.cap)
        return LimitsUpdate(**limits.model_dump(), generation=batch.generation or 1)

    @property
    def law(self) -> Law[Any]:
        """Return the law that decides, as far as the pool's modes let it."""
        law = LAWS[self.effective.algorithm]
        if any(one.spec.schedules for one in self.policies):
            law = Scheduled(law, self.floor)
        return Granted(law, self)

    def floor(self, passed: float) -> int:
        """Return minReplicas so many seconds after the beginning, raised by the schedules open then."""
        open_then = openings(self.policies, self.began + passed)
        if not open_then:
            return self.effective.law.min_replicas
        subject = self.subject
        then = effective(subject.pool, subject.namespace_labels, self.policies, open_now=open_then)
        return then.law.min_replicas


class Granted:
    """A law whose wishes are granted as the pool's two modes grant them."""

    def __init__(self, law: Law[Any], case: PolicyCase) -> None:
        self.name = law.name
        self._law = law
        self._case = case
        self._published = case.published

    def initial(self, now: float) -> Any:
        """Return the law's own state."""
        return self._law.initial(now)

    def step(self, state: Any, observed: LawInput, now: float) -> tuple[Any, Decision]:
        """Return the law's step under the pool's own settings, and what is granted of it."""
        spec, case = self._case.effective, self._case
        state, wish = self._law.step(state, replace(observed, settings=spec.law), now)
        granted = replace(
            wish,
            cap=modes.granted_cap(spec, wish, self._published),
            replicas=modes.granted_replicas(spec, wish, case.count),
        )
        return state, granted if case.moves else replace(
            granted, replicas_term=ReplicasReason.MANUAL
        )


class Scheduled:
    """A law whose floor moves with the hour."""

    def __init__(self, law: Law[Any], floor: Callable[[float], int]) -> None:
        """`floor` says minReplicas by the seconds since the beginning."""
        self.name = law.name
        self._law = law
        self._floor = floor

    def initial(self, now: float) -> Any:
        """Return the law's own state."""
        return self._law.initial(now)

    def step(self, state: Any, observed: LawInput, now: float) -> tuple[Any, Decision]:
        """Return the law's step under the floor of the hour."""
        settings = replace(observed.settings, min_replicas=self._floor(now - EPOCH))
        return self._law.step(state, replace(observed, settings=settings), now)


class ObservedLaw:
    """A law under another name that tells how far its world has come."""

    def __init__(self, name: str, law: Law[Any], told: Callable[[float], None]) -> None:
        """`told` gets the seconds since the beginning, every tick."""
        self.name = name
        self._law = law
        self._told = told

    def initial(self, now: float) -> Any:
        """Return the law's own state."""
        return self._law.initial(now)

    def step(self, state: Any, observed: LawInput, now: float) -> tuple[Any, Decision]:
        """Return the law's own step."""
        self._told(now - EPOCH)
        return self._law.step(state, observed, now)


@dataclass(frozen=True, slots=True)
class WhatIfRequest:
    """What the user asked for, for every case alike."""

    mode: ScalingMode | None
    """In the place of the pool's own; None: its own."""
    began: float


def case(
    name: str, subject: PoolContext, policies: Sequence[PolicyObject], asked: WhatIfRequest
) -> PolicyCase:
    """Return the pool under `policies`."""
    found = effective(subject.pool, subject.namespace_labels, policies)
    found = found if asked.mode is None else replace(found, scaling_mode=asked.mode)
    return PolicyCase(name, subject, tuple(policies), found, asked.began)


def scenario(
    one: PolicyCase, service: ServiceModel, startup_p90: float, start_replicas: int, seed: int
) -> Scenario:
    """Return the world of one case. Start-ups are lognormal about what was watched; none fails."""
    settings = one.effective.law
    if not one.moves:
        settings = replace(settings, min_replicas=one.count, max_replicas=one.count)
    median = startup_p90 / exp(NORMAL_P90 * STARTUP_SIGMA)
    return Scenario(
        service=service,
        settings=settings,
        start_replicas=min(max(start_replicas, settings.min_replicas), settings.max_replicas),
        cold=ColdStarts(median_seconds=median, sigma=STARTUP_SIGMA, failing_share=0.0),
        max_queue_depth=one.effective.max_queue_depth,
        seed=seed,
    )


def service_of(
    subject: PoolContext, asked: tuple[float, float] | None, sums: CurveSums | None
) -> ServiceModel:
    """Return how long batches take: as `asked` (milliseconds), else by the history's sums, else by the status.

    Raises:
        Unfit: none of them knows.
    """
    if asked is not None:
        return ServiceModel(asked[0] / 1000, asked[1] / 1000)
    line = None if sums is None else fit(sums)
    if line is not None:
        return ServiceModel(line.a, line.c)
    seen = subject.pool.status.scaling
    if seen is not None and seen.curve is not None:
        a, c = float(seen.curve.intercept_milliseconds), float(seen.curve.milliseconds_per_row)
        return ServiceModel(a / 1000, c / 1000)
    raise NotEnoughData(
        "the pool's service curve is not known yet: give t(b) = a + c*b by --curve A,C in ms"
    )


def startup_p90(subject: PoolContext, asked: float | None) -> float:
    """Return the 90th percentile of start-up in seconds: as asked, else as watched, else the prior."""
    seen = subject.pool.status.scaling
    if asked is not None:
        return asked
    if seen is not None and seen.startup_p90_seconds is not None:
        return float(seen.startup_p90_seconds)
    return FIRST_STARTUP_P90


def devices(subject: PoolContext) -> int:
    """Return the devices of one replica; a pool on CPUs counts replicas."""
    return max(accelerator(subject.pool).count, 1)
