"""Laws by name: the operator's own under their `scaling.algorithm`, baselines as `kind` or `kind-setting[@cap]`. Pure."""

from math import inf
from typing import Any

from penstock_operator.decide.scaling.decision import LAWS
from penstock_operator.decide.scaling.law import Law
from penstock_simulator.baselines.dynamo import DynamoLike
from penstock_simulator.baselines.fixed import fixed
from penstock_simulator.baselines.hpa import Horizontal
from penstock_simulator.baselines.inputs import in_flight, queue_depth, utilization
from penstock_simulator.baselines.knative import Knative
from penstock_simulator.baselines.ray_serve import RayServe
from penstock_simulator.baselines.workload_variant_autoscaler import VariantLike
from penstock_simulator.batch_time import ServiceModel

OWN = tuple(algorithm.value for algorithm in LAWS)
VENDOR_DEFAULTS = (
    "hpa-70",
    "keda-queue-5",
    "keda-inflight-16",
    "knative-100",
    "ray-2",
    "dynamo-180",
    "wva",
)
"""Baselines at the numbers that their vendors ship; `dynamo` is the predictive planner, which v1.2.1 no longer runs by default."""
KINDS = "hpa-PERCENT, keda-queue-N, keda-inflight-N, knative-N, ray-N, dynamo-SECONDS, wva, fixed-N, each also with @CAP"


class UnknownLaw(ValueError):
    """No law has this name."""


def law_named(name: str, service: ServiceModel) -> Law[Any]:
    """Return the law by name; `service` is the profile of planners that need one.

    Raises:
        UnknownLaw: the message lists the known names.
    """
    for algorithm, law in LAWS.items():
        if algorithm.value == name:
            return law
    try:
        return _baseline(name, service)
    except (KeyError, ValueError) as problem:
        raise UnknownLaw(
            f"unknown law {name!r}: expected {', '.join(OWN)}, or {KINDS}"
        ) from problem


def _baseline(name: str, service: ServiceModel) -> Law[Any]:
    plain, _, capped = name.partition("@")
    cap = int(capped) if capped else None
    if cap is not None and cap < 1:
        raise ValueError(capped)
    law = VariantLike(cap) if plain == "wva" else _of_kind(plain, cap, service)
    law.name = name
    return law


def _of_kind(plain: str, cap: int | None, service: ServiceModel) -> Law[Any]:
    kind, _, text = plain.rpartition("-")
    setting = float(text)
    if not 0 < setting < inf:
        raise ValueError(text)
    laws: dict[str, Law[Any]] = {
        "hpa": Horizontal(plain, utilization, setting / 100.0, cap),
        "keda-queue": Horizontal(plain, queue_depth, setting, cap, total=True),
        "keda-inflight": Horizontal(plain, in_flight, setting, cap, total=True),
        "knative": Knative(setting, cap),
        "ray": RayServe(setting, cap),
        "dynamo": DynamoLike(service, setting, cap),
        "fixed": fixed(max(1, int(setting)), cap),
    }
    return laws[kind]
