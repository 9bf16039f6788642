"""The DCGM exporter's series, joined to pods: what the device itself says of its utilisation.

The exporter says in which pod a device is, by the labels `pod` and `namespace`; a Prometheus that does not honour an
exporter's own labels calls them `exported_pod` and `exported_namespace`. A whole GPU is told by
`DCGM_FI_DEV_GPU_UTIL` (percent), a MIG instance, which has none, by `DCGM_FI_PROF_GR_ENGINE_ACTIVE` (a share).
"""

from collections import defaultdict
from collections.abc import Iterable, Mapping
from dataclasses import dataclass, field, replace
from typing import Any

from penstock_operator.observed import PodSample, UtilizationSource, measured

UTILIZATION = "DCGM_FI_DEV_GPU_UTIL"
ENGINE_ACTIVE = "DCGM_FI_PROF_GR_ENGINE_ACTIVE"
FRESH_SECONDS = 60
"""The exporter reads devices every 30 s unless told otherwise, and is scraped every 15 s or so."""
QUERY = '{__name__=~"' + f"{UTILIZATION}|{ENGINE_ACTIVE}" + '"}' + f"[{FRESH_SECONDS}s]"

Duties = dict[str, list[tuple[float, float]]]
"""Device -> (time, share) in any order."""


@dataclass(slots=True)
class Devices:
    """What the exporters of one server know, by (namespace, pod)."""

    utilization: dict[tuple[str, str], Duties] = field(default_factory=dict)
    engine_active: dict[tuple[str, str], Duties] = field(default_factory=dict)

    def add(self, result: Iterable[Any]) -> None:
        """Add an answer's series; malformed ones, and devices in no pod, are left out."""
        for series in result:
            try:
                self._add(series["metric"], series["values"])
            except (LookupError, TypeError, ValueError, OverflowError):
                continue

    def _add(self, labels: Mapping[str, str], values: Iterable[tuple[Any, Any]]) -> None:
        pod = labels.get("exported_pod") or labels.get("pod") or ""
        namespace = labels.get("exported_namespace") if "exported_pod" in labels else None
        instance = labels.get("GPU_I_ID") or ""
        whole = labels["__name__"] == UTILIZATION
        if not pod or (whole and instance):
            return
        held = self.utilization if whole else self.engine_active
        place = (namespace or labels["namespace"], pod)
        device = f"{labels.get('UUID') or labels['gpu']}/{instance}"
        known = held.setdefault(place, defaultdict(list))[device]
        for time, value in values:
            share = measured(float(value) / (100.0 if whole else 1.0))
            if share is not None and share <= 1:
                known.append((float(time), share))

    def told(self, namespace: str, pod: str, samples: Iterable[PodSample]) -> list[PodSample]:
        """Return a pod's samples with the devices' own duty where it was fresh at the sample's time."""
        place = (namespace, pod)
        devices = {**self.engine_active.get(place, {}), **self.utilization.get(place, {})}
        return [_told(sample, devices) for sample in samples] if devices else list(samples)


def _told(sample: PodSample, devices: Duties) -> PodSample:
    shares = [share for known in devices.values() if (share := _at(known, sample.time)) is not None]
    if not shares:
        return sample
    mean = sum(shares) / len(shares)
    return replace(sample, gpu_utilization=mean, duty_source=UtilizationSource.DCGM)


def _at(known: Iterable[tuple[float, float]], time: float) -> float | None:
    """Return a device's last share before `time`, if it was fresh then."""
    fresh = [one for one in known if time - FRESH_SECONDS <= one[0] <= time]
    return max(fresh)[1] if fresh else None
