"""Metrics that baselines read, and the decision that they return. Pure."""

from collections.abc import Callable, Mapping

from penstock_operator.decide.scaling.law import Decision, LawInput, LawObservations
from penstock_operator.observed import PodSample

UNSEEN = LawObservations(None, None, None, None, None, None, None, None)
Metric = Callable[[PodSample], float | None]


def utilization(sample: PodSample) -> float | None:
    """Return GPU utilization, 0 to 1."""
    return sample.gpu_utilization


def queue_depth(sample: PodSample) -> float | None:
    """Return waiting requests."""
    return sample.waiting


def in_flight(sample: PodSample) -> float | None:
    """Return waiting and running requests."""
    if sample.waiting is None or sample.running is None:
        return None
    return sample.waiting + sample.running


def per_pod(observed: LawInput, metric: Metric) -> Mapping[str, float]:
    """Return the newest value since Ready of every pod that has one, excluding terminating pods."""
    since = {pod.uid: pod.ready_since for pod in observed.pods if not pod.terminating}
    values = {}
    for sample in sorted(observed.signals.samples, key=lambda sample: sample.time):
        value, ready = metric(sample), since.get(sample.uid)
        if ready is not None and ready <= sample.time and value is not None:
            values[sample.uid] = value
    return values


def decided(observed: LawInput, replicas: int, cap: int | None, *, seen: bool = True) -> Decision:
    """Return the decision of a law that only sets the replica count."""
    settings = observed.settings
    bounded = min(max(replicas, settings.min_replicas), settings.max_replicas)
    return Decision(
        cap=min(cap or settings.size_max, settings.size_max),
        replicas=bounded,
        cap_term="Fixed",
        replicas_term="Baseline",
        observations=UNSEEN,
        metrics_available=seen,
    )
