"""Reasons of a batch cap and of a replica count: the values of `capTerm` and `replicasTerm`. Pure."""

from enum import StrEnum
from typing import NamedTuple


class CapReason(StrEnum):
    """Reason of the batch cap."""

    FIRST_CAP = "FirstCap"
    SIZE_MIN = "SizeMin"
    SIZE_MAX = "SizeMax"
    BATCH_TIME = "BatchTime"
    MEMORY_PRESSURE = "MemoryPressure"
    MEMORY_BOUND = "MemoryBound"
    LOW_DUTY = "LowDuty"
    WAITING = "Waiting"
    BATCH_TIME_TARGET = "BatchTimeTarget"
    IN_BAND = "InBand"
    STEP_INTERVAL = "StepInterval"
    UNACKNOWLEDGED = "Unacknowledged"
    OBJECTIVE = "Objective"
    OBJECTIVE_INFEASIBLE = "ObjectiveInfeasible"
    KNEE = "Knee"
    BACK_OFF = "BackOff"
    MEASURED_RANGE = "MeasuredRange"
    CURVE_UNKNOWN = "CurveUnknown"
    SIGNALS_ABSENT = "SignalsAbsent"
    LAW_FAILED = "LawFailed"


class ReplicasReason(StrEnum):
    """Reason of the replica count."""

    QUEUE_DEPTH = "QueueDepth"
    SPARE_CAPACITY = "SpareCapacity"
    STABILIZING = "Stabilizing"
    RATE_LIMITED = "RateLimited"
    STEADY = "Steady"
    FORECAST = "Forecast"
    PANIC = "Panic"
    HIGH_PERCENT = "HighPercent"
    LOW_PERCENT = "LowPercent"
    CURVE_UNKNOWN = "CurveUnknown"
    MIN_REPLICAS = "MinReplicas"
    MAX_REPLICAS = "MaxReplicas"
    SIGNALS_ABSENT = "SignalsAbsent"
    LAW_FAILED = "LawFailed"
    MANUAL = "Manual"
    REQUESTS_HELD = "RequestsHeld"
    IDLE = "Idle"
    BATCH_WORK = "BatchWork"


class CapMove(NamedTuple):
    """A new cap, in rows, and its reason."""

    cap: int
    term: CapReason
    why: str


class ReplicasMove(NamedTuple):
    """A new count and its reason; `hold_until` (Unix seconds) if it may fall after that time."""

    replicas: int
    term: ReplicasReason
    why: str
    hold_until: float | None = None


def counted(replicas: int, verb: str = "") -> str:
    """Return a count of replicas, with its verb where one is given in the plural form, such as `suffice`."""
    singular = replicas == 1
    noun = "1 replica" if singular else f"{replicas} replicas"
    return f"{noun} {verb}{'s' if singular else ''}" if verb else noun
