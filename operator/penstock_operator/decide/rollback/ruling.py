"""Which settings are in force for a pool: those asked for, or those before them. Pure."""

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, replace

from penstock_api.types.policy import RollbackMode
from penstock_operator.decide.rollback.record import Record, Settings, read
from penstock_operator.decide.rollback.trial import (
    RollbackObservation,
    RollbackWatch,
    begun,
    judged,
)
from penstock_operator.decide.rollback.windows import CounterMark
from penstock_operator.decide.scaling.signals.attainment import Attainment
from penstock_operator.decide.spec.bounds import lowered, tightest
from penstock_operator.decide.spec.effective import EffectiveSpec, in_force
from penstock_operator.decide.spec.live_fields import WEIGHT, Value
from penstock_operator.observed import PolicyObject

WINDOW_SECONDS = 600
OWN = ("replicas", WEIGHT)
"""Never part of a revision: the count of mode Manual, and a pool's share, are no settings of how it serves."""


@dataclass(frozen=True, slots=True)
class RollbackDecision:
    """What came of the watch over a pool's settings at one pass."""

    effective: EffectiveSpec
    watch: RollbackWatch
    record: Record | None
    """To be kept; None: no policy asks for it."""
    told: str = ""
    """Why what is asked for is set aside; empty while it is in force."""


@dataclass(frozen=True, slots=True)
class RollbackInput:
    """What the watch goes by at one pass."""

    attainment: Attainment
    obeyed: bool
    """Whether every Ready pod obeys the published limits."""
    now: float


def rule(
    spec: EffectiveSpec,
    policies: Sequence[PolicyObject],
    kept: str | None,
    held: tuple[RollbackWatch, Record | None],
    seen: RollbackInput,
) -> RollbackDecision:
    """Return the settings in force.

    `kept` is the record as it was last read, `held` what this process remembers: it may be newer.
    """
    window = _window(policies)
    if window is None:
        return RollbackDecision(spec, RollbackWatch(), None)
    asked = _settings(spec)
    mark = CounterMark(seen.now, seen.attainment.good, seen.attainment.total)
    watch, remembered = held
    look = RollbackObservation(mark, window, seen.obeyed)
    record, watch = begun(remembered or read(kept), watch, asked, look)
    record, watch = judged(record, watch, asked, look)
    if record.set_aside != asked.digest():
        return RollbackDecision(spec, watch, record)
    told = f"{_changes(record.accepted, asked)} set aside: {record.why}"
    return RollbackDecision(_pinned(spec, record.accepted, policies), watch, record, told)


def _window(policies: Sequence[PolicyObject]) -> float | None:
    """Return the window of the policy that speaks of rollback, the highest priority's; None: nothing is watched."""
    word = next((one.spec.rollback for one in policies if one.spec.rollback is not None), None)
    if word is None or word.mode is not RollbackMode.ON_OBJECTIVE_MISS:
        return None
    return float(word.window_seconds or WINDOW_SECONDS)


def _settings(spec: EffectiveSpec) -> Settings:
    fields = {key: value for key, value in spec.fields.items() if key not in OWN}
    return Settings(fields, tuple(sorted(spec.guarded)))


def _pinned(
    spec: EffectiveSpec, accepted: Settings, policies: Sequence[PolicyObject]
) -> EffectiveSpec:
    """Return `spec` with the settings before it; bounds of policies that know no rollback hold all the same."""
    strict = [
        one
        for one in policies
        if one.spec.rollback is None or one.spec.rollback.mode is not RollbackMode.ON_OBJECTIVE_MISS
    ]
    wishes: Mapping[str, Value] = {**spec.fields, **accepted.fields}
    granted, _ = lowered(wishes, strict, scales=True)
    pinned = in_force(spec, granted, frozenset(accepted.guarded))
    return replace(pinned, replicas_bound=tightest(strict, "replicas"))


def _changes(accepted: Settings, asked: Settings) -> str:
    names = sorted(accepted.fields.keys() | asked.fields.keys())
    changed = [
        f"{name} {accepted.fields.get(name, 'unset')} -> {asked.fields.get(name, 'unset')}"
        for name in names
        if accepted.fields.get(name) != asked.fields.get(name)
    ]
    return ", ".join(changed[:8]) or "guards"
