"""Fixed parameters of the bench (docs/design/control-law.md#fixed-parameters): traces, scale, noise, grids, targets, split."""

import json
from dataclasses import dataclass
from pathlib import Path

from penstock_operator.decide.spec.law_settings import LawSettings
from penstock_simulator.batch_time import ServiceModel
from penstock_simulator.law_registry import OWN, VENDOR_DEFAULTS
from penstock_simulator.scenario import ColdStarts, Routing, Scenario

TRACES = {
    "azure_conv": "AzureLLMInferenceTrace_conv.csv.gz",
    "azure_code": "AzureLLMInferenceTrace_code.csv.gz",
    "burstgpt": "burstgpt_hourly.csv.gz",
    "mooncake": "mooncake_conversation.jsonl.gz",
}
WITHOUT_TARGET = "azure_code"
"""A trace whose load grows 13-fold in 10 s; it is reported without a cost target."""
AIMED = tuple(trace for trace in TRACES if trace != WITHOUT_TARGET)
PARTS = (("azure_conv",), ("burstgpt", "mooncake"))
"""Two parts for cross-validation: settings are tuned on one and reported on the other."""

FITTED = Path(__file__).parents[1] / "fit" / "fitted.json"
MIN_SIGMA = 0.03


def fitted_service() -> ServiceModel:
    """Return the service curve and overhead that `make bench-fit` measured on an emulated accelerator of 100 + 10 b ms.

    Its batch times vary less than a device's, so sigma is at least MIN_SIGMA, and 1 batch in 500 takes 1.5 times as long.
    """
    known = json.loads(FITTED.read_text(encoding="utf-8"))["service"]
    sigma = max(known["sigma"], MIN_SIGMA)
    return ServiceModel(known["a"], known["c"], sigma, overhead=known["overhead"])


SERVICE = fitted_service()
SETTINGS = LawSettings(
    objective_milliseconds=1000,
    size_min=1,
    size_max=32,
    max_queue_delay_milliseconds=5,
    min_replicas=1,
    max_replicas=64,
    low_percent=50,
    high_percent=90,
    target_per_replica=4,
    stabilization_seconds=300,
    max_percent_per_minute=25,
)
LAWS = (*OWN, *VENDOR_DEFAULTS)
DEFAULT = OWN[-1]
"""The law with targets: the newest of the operator's own."""

ATTAINED = 0.99
GAP_TARGETS = {"best single setting": 0.75, "keda-queue-5": 0.90, "hpa-70": 0.95}
"""Share of the gap to the clairvoyant that the default law should close."""
SENSITIVITY_TARGET = 0.05
"""Largest relative change of cost when any default changes by a quarter."""
COST_TARGET, ACCEPTABLE_COST = 1.10, 1.20
"""GPU-hours relative to the clairvoyant's, geometric mean."""


@dataclass(frozen=True, slots=True)
class RunSize:
    """Extent of a run of the bench."""

    seconds: float | None
    """Length of each trace in seconds; None for the whole trace."""
    seeds: tuple[int, ...]
    cold_medians: tuple[float, ...]
    thresholds: tuple[str, ...]
    caps: tuple[int, ...]
    changes: bool
    """Whether the sensitivity to the law's defaults is measured."""
    budget: str


QUICK = RunSize(
    seconds=1200.0,
    seeds=(1,),
    cold_medians=(60.0,),
    thresholds=("keda-queue-3", "keda-queue-8", "keda-inflight-8", "keda-inflight-12", "hpa-50"),
    caps=(32,),
    changes=False,
    budget="about 4 minutes on two cores",
)
WHOLE = RunSize(
    seconds=None,
    seeds=(1, 2, 3, 4, 5),
    cold_medians=(15.0, 60.0, 180.0),
    thresholds=(
        *("keda-queue-2", "keda-queue-3", "keda-queue-4", "keda-queue-7", "keda-queue-10"),
        *("keda-inflight-6", "keda-inflight-8", "keda-inflight-10", "keda-inflight-12"),
        *(
            "keda-inflight-20",
            "hpa-40",
            "hpa-55",
            "hpa-85",
            "knative-20",
            "knative-40",
            "ray-6",
            "ray-12",
        ),
    ),
    caps=(16, 32),
    changes=True,
    budget="about 3.5 hours on one core; --cores divides it",
)


def scenario(seed: int, cold_median: float, routing: Routing = Routing.CONNECTION) -> Scenario:
    """Return the scenario of a run, which is the same for every law."""
    cold = ColdStarts(median_seconds=cold_median)
    return Scenario(SERVICE, SETTINGS, routing=routing, cold=cold, seed=seed)


def settings_of(size: RunSize) -> tuple[str, ...]:
    """Return the candidates for the best single setting: thresholds and vendor defaults, each by cap; none of planners without a threshold."""
    tried = [
        *(law for law in VENDOR_DEFAULTS if not law.startswith(("dynamo", "wva"))),
        *size.thresholds,
    ]
    return tuple(
        law if cap == SETTINGS.size_max else f"{law}@{cap}" for law in tried for cap in size.caps
    )
