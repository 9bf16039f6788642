"""The rollback decision of a pass: whether the requested settings or those before them are in force. Pure."""

from collections.abc import Mapping, Sequence
from dataclasses import replace
from typing import NamedTuple

from penstock_api.types.policy import RollbackMode
from penstock_operator.decide.rollback.record import Record, Settings
from penstock_operator.decide.rollback.trial import (
    CounterMark,
    RollbackObservation,
    RollbackWatch,
    evaluate,
    register,
)
from penstock_operator.decide.scaling.signals.attainment import Attainment, Objectives
from penstock_operator.decide.spec.bounds import lowered, tightest
from penstock_operator.decide.spec.effective import EffectiveSpec, in_force
from penstock_operator.decide.spec.live_fields import BUILT_IN, WEIGHT, Value
from penstock_operator.observed import PolicyObject

WINDOW_SECONDS = 600
UNREVISIONED = ("replicas", WEIGHT)
"""Fields outside of a revision: the count of mode Manual and the pool's weight do not change how it serves."""


class RollbackDecision(NamedTuple):
    """The settings in force at one pass, and the state of their evaluation."""

    effective: EffectiveSpec
    watch: RollbackWatch
    record: Record | None
    """Record to store; None where no policy enables rollback."""
    rolled_back: str = ""
    """Reason for which the requested settings are rolled back; empty while they are in force."""


class RollbackInput(NamedTuple):
    """The measurements of one pass."""

    attainment: Attainment
    acknowledged: bool
    """Whether every Ready pod acknowledged the published limits."""
    now: float


def decide_rollback(
    spec: EffectiveSpec,
    policies: Sequence[PolicyObject],
    state: tuple[RollbackWatch, Record | None],
    measured: RollbackInput,
) -> RollbackDecision:
    """Return the settings in force; `state` is the watch and the record of the pass before."""
    window = _window(policies)
    if window is None:
        return RollbackDecision(spec, RollbackWatch(), None)
    requested = _settings(spec)
    mark = CounterMark(measured.now, measured.attainment.good, measured.attainment.total)
    watch, record = state
    late_share = Objectives.of(spec.law).late_share
    observation = RollbackObservation(mark, window, measured.acknowledged, late_share)
    record, watch = register(record, watch, requested, observation)
    record, watch = evaluate(record, watch, requested, observation)
    if record.rolled_back != requested.digest():
        return RollbackDecision(spec, watch, record)
    reason = f"{_changes(record.accepted, requested)} rolled back: {record.why}"
    return RollbackDecision(_pinned(spec, record.accepted, policies), watch, record, reason)


def _window(policies: Sequence[PolicyObject]) -> float | None:
    """Return the window of the highest-priority policy that sets `rollback`; None where rollback is off."""
    rollbacks = (policy.spec.rollback for policy in policies)
    rollback = next((item for item in rollbacks if item is not None), None)
    if rollback is None or rollback.mode is not RollbackMode.ON_OBJECTIVE_MISS:
        return None
    return float(rollback.window_seconds or WINDOW_SECONDS)


def _settings(spec: EffectiveSpec) -> Settings:
    fields = {key: value for key, value in spec.fields.items() if key not in UNREVISIONED}
    return Settings(fields, tuple(sorted(spec.guarded)))


def _pinned(
    spec: EffectiveSpec, accepted: Settings, policies: Sequence[PolicyObject]
) -> EffectiveSpec:
    """Return `spec` with the accepted settings; bounds of policies without rollback still apply."""
    strict = [
        policy
        for policy in policies
        if policy.spec.rollback is None
        or policy.spec.rollback.mode is not RollbackMode.ON_OBJECTIVE_MISS
    ]
    filled = {
        name: value
        for name, value in spec.fields.items()
        if name in BUILT_IN or name in UNREVISIONED  # a record of an earlier version lacks fields
    }
    values: Mapping[str, Value] = {**filled, **accepted.fields}
    granted, _ = lowered(values, strict)
    pinned = in_force(spec, granted, frozenset(accepted.guarded))
    return replace(pinned, replicas_bound=tightest(strict, "replicas"))


def _changes(accepted: Settings, requested: Settings) -> str:
    names = sorted(accepted.fields.keys() | requested.fields.keys())
    changed = [
        f"{name} {accepted.fields.get(name, 'unset')} -> {requested.fields.get(name, 'unset')}"
        for name in names
        if accepted.fields.get(name) != requested.fields.get(name)
    ]
    return ", ".join(changed[:8]) or "guards"
