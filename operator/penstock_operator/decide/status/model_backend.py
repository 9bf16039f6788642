"""The backend of a pool's model as its pods report it (docs/reference/backends.md)."""

from collections import Counter
from collections.abc import Iterable

from penstock_api.pod_contract import BackendCandidate, ModelBackendState
from penstock_api.types.status import ModelBackendCandidate, ModelBackendStatus
from penstock_operator.observed import PodObject, PoolView

MAX_CANDIDATES, MAX_MESSAGE = 8, 512
"""Bounds of the schema."""


def model_backend_status(view: PoolView, ready: Iterable[PodObject]) -> ModelBackendStatus | None:
    """Return the backend of most of the `ready` pods, with the figures of the first of them by name.

    While no Ready pod has reported one, the last status stays.
    """
    reports = [
        answer.model_backend
        for pod in sorted(ready, key=lambda pod: pod.name)
        if (answer := view.acknowledgements.get(pod.uid)) and answer.model_backend
    ]
    if not reports:
        return view.pool.status.model_backend
    name, pods = Counter(report.name for report in reports).most_common(1)[0]
    return _status(next(report for report in reports if report.name == name), pods)


def _status(report: ModelBackendState, pods: int) -> ModelBackendStatus:
    candidates = list({each.name: each for each in report.candidates}.values())[:MAX_CANDIDATES]
    return ModelBackendStatus(
        name=report.name,
        pods=pods,
        batch_sizes=report.batch_sizes or None,
        candidates=tuple(map(_candidate, candidates)) or None,
    )


def _candidate(report: BackendCandidate) -> ModelBackendCandidate:
    return ModelBackendCandidate(
        name=report.name,
        rows_per_second=tuple(f"{rate:.1f}" for rate in report.rows_per_second) or None,
        greatest_error=_error(report.greatest_error),
        mean_error=_error(report.mean_error),
        equal_tokens_percent=(
            None if report.equal_token_share is None else f"{100 * report.equal_token_share:.1f}"
        ),
        message=report.message and report.message[:MAX_MESSAGE],
    )


def _error(error: float | None) -> str | None:
    return None if error is None else f"{error:.1e}"
