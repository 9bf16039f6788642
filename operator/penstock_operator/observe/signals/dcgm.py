"""GPU utilization from the DCGM exporter, joined to pods.

The exporter sets the labels `pod` and `namespace` of a device's pod; a Prometheus that does not honor an exporter's labels
renames them to `exported_pod` and `exported_namespace`. The utilization of a GPU is `DCGM_FI_DEV_GPU_UTIL` (percent);
a MIG instance, which lacks it, has `DCGM_FI_PROF_GR_ENGINE_ACTIVE` (a share).
"""

from collections import defaultdict
from collections.abc import Iterable, Mapping
from dataclasses import dataclass, field, replace
from typing import Any

from penstock_operator.measured import measured
from penstock_operator.observed import PodSample, UtilizationSource

UTILIZATION = "DCGM_FI_DEV_GPU_UTIL"
ENGINE_ACTIVE = "DCGM_FI_PROF_GR_ENGINE_ACTIVE"
FRESH_SECONDS = 60
"""The exporter reads devices every 30 s by default, and is scraped about every 15 s."""
QUERY = '{__name__=~"' + f"{UTILIZATION}|{ENGINE_ACTIVE}" + '"}' + f"[{FRESH_SECONDS}s]"

Duties = dict[str, list[tuple[float, float]]]
"""(time, share) in any order, by device."""


@dataclass(slots=True)
class Devices:
    """Series of the exporters on one server, by (namespace, pod)."""

    utilization: dict[tuple[str, str], Duties] = field(default_factory=dict)
    engine_active: dict[tuple[str, str], Duties] = field(default_factory=dict)

    def add(self, result: Iterable[Any]) -> None:
        """Add the series of a response; malformed ones and devices without a pod are left out."""
        for series in result:
            try:
                self._add(series["metric"], series["values"])
            except (LookupError, TypeError, ValueError, OverflowError):
                continue

    def _add(self, labels: Mapping[str, str], values: Iterable[tuple[Any, Any]]) -> None:
        pod = labels.get("exported_pod") or labels.get("pod") or ""
        namespace = labels.get("exported_namespace") if "exported_pod" in labels else None
        instance = labels.get("GPU_I_ID") or ""
        full = labels["__name__"] == UTILIZATION
        if not pod or (full and instance):
            return
        duties = self.utilization if full else self.engine_active
        key = (namespace or labels["namespace"], pod)
        device = f"{labels.get('UUID') or labels['gpu']}/{instance}"
        points = duties.setdefault(key, defaultdict(list))[device]
        for time, value in values:
            share = measured(float(value) / (100.0 if full else 1.0))
            if share is not None and share <= 1:
                points.append((float(time), share))

    def apply(self, namespace: str, pod: str, samples: Iterable[PodSample]) -> list[PodSample]:
        """Return a pod's samples, with the utilization of its devices where that was fresh at the sample's time."""
        key = (namespace, pod)
        devices = {**self.engine_active.get(key, {}), **self.utilization.get(key, {})}
        return [_with_duty(sample, devices) for sample in samples] if devices else list(samples)


def _with_duty(sample: PodSample, devices: Duties) -> PodSample:
    shares = [
        share for points in devices.values() if (share := _at(points, sample.time)) is not None
    ]
    if not shares:
        return sample
    mean = sum(shares) / len(shares)
    return replace(sample, gpu_utilization=mean, duty_source=UtilizationSource.DCGM)


def _at(points: Iterable[tuple[float, float]], time: float) -> float | None:
    """Return a device's last share before `time` if it was fresh then."""
    fresh = [point for point in points if time - FRESH_SECONDS <= point[0] <= time]
    return max(fresh)[1] if fresh else None
