"""How far the loads of starting pods have come, in words."""

from collections.abc import Iterable

from penstock_api.limits import Loading, LoadStage
from penstock_operator.decide.pool_outcome import PoolOutcome
from penstock_operator.observed import PodObject

MODEL_LOADING = "ModelLoading"
_UNITS = (("GB", 10**9), ("MB", 10**6), ("kB", 10**3))
_BEHIND = "; it shares its cache with another pod, which fetches"


def loading(found: PoolOutcome) -> str | None:
    """Return a sentence on the load that has come furthest, or None where no pod tells of one."""
    told = list(_told(found))
    if not told:
        return None
    pod, furthest = max(told, key=lambda one: (_share(one[1]), one[0].name))
    others = f", and {len(told) - 1} more load" if len(told) > 1 else ""
    return f"pod {pod.name}: {_sentence(furthest)}{others}"


def _told(found: PoolOutcome) -> Iterable[tuple[PodObject, Loading]]:
    for pod in found.pods:
        answer = found.view.acknowledgements.get(pod.uid)
        if answer is not None and answer.loading is not None and not pod.ready:
            yield pod, answer.loading


def _share(load: Loading) -> float:
    if load.stage is LoadStage.STARTING:
        return 1.0
    return load.loaded_bytes / load.total_bytes if load.total_bytes else 0.0


def _sentence(load: Loading) -> str:
    if load.stage is LoadStage.STARTING:
        return "the model's files are there; it is placed on its device and warmed"
    behind = _BEHIND if load.stage is LoadStage.WAITING else ""
    if not load.total_bytes:
        return f"the model's files are being listed{behind}"
    return f"the model is fetched: {progress(load)}{behind}"


def progress(load: Loading) -> str:
    """Return bytes and percent, as `3.1 of 14.2 GB, 22 %`; 100 % is said of nothing unfinished."""
    held, total = min(load.loaded_bytes, load.total_bytes), load.total_bytes
    unit, size = next((one for one in _UNITS if total >= one[1]), ("bytes", 1))
    digits = 0 if size == 1 else 1
    percent = held * 100 // total
    return f"{held / size:.{digits}f} of {total / size:.{digits}f} {unit}, {percent} %"
