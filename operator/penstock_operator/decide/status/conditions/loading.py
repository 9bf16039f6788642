"""Progress of model loading in starting pods, for condition messages."""

from collections.abc import Iterable

from penstock_api.pod_contract import Loading, LoadStage
from penstock_operator.decide.pool_outcome import PoolOutcome
from penstock_operator.observed import PodObject

MODEL_LOADING = "ModelLoading"
_UNITS = (("GB", 10**9), ("MB", 10**6), ("kB", 10**3))
_SHARED_CACHE = "; another pod downloads into the shared cache"


def loading(outcome: PoolOutcome) -> str | None:
    """Return a sentence on the pod that is furthest in loading; None where no pod reports progress."""
    reports = list(_reports(outcome))
    if not reports:
        return None
    pod, furthest = max(reports, key=lambda report: (_share(report[1]), report[0].name))
    more = len(reports) - 1
    others = f"; {more} more {'pod is' if more == 1 else 'pods are'} loading" if more else ""
    return f"pod {pod.name}: {_sentence(furthest)}{others}"


def _reports(outcome: PoolOutcome) -> Iterable[tuple[PodObject, Loading]]:
    for pod in outcome.pods:
        answer = outcome.view.acknowledgements.get(pod.uid)
        if answer is not None and answer.loading is not None and not pod.ready:
            yield pod, answer.loading


def _share(load: Loading) -> float:
    if load.stage is LoadStage.STARTING:
        return 1.0
    return load.loaded_bytes / load.total_bytes if load.total_bytes else 0.0


def _sentence(load: Loading) -> str:
    if load.stage is LoadStage.STARTING:
        return "the model is on disk; loading it onto its device and warming up"
    waiting = _SHARED_CACHE if load.stage is LoadStage.WAITING else ""
    if not load.total_bytes:
        return f"listing the model's files{waiting}"
    return f"downloading the model: {progress(load)}{waiting}"


def progress(load: Loading) -> str:
    """Return bytes and percent, as `3.1 of 14.2 GB, 22 %`; only a complete download has 100 %."""
    loaded, total = min(load.loaded_bytes, load.total_bytes), load.total_bytes
    unit, size = next((item for item in _UNITS if total >= item[1]), ("bytes", 1))
    digits = 0 if size == 1 else 1
    percent = loaded * 100 // total
    return f"{loaded / size:.{digits}f} of {total / size:.{digits}f} {unit}, {percent} %"
