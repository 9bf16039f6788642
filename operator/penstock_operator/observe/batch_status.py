"""`BatchReader`: the batches of a namespace, read from its batch service and shared by the namespace's pools."""

import logging
from collections import defaultdict
from collections.abc import Callable, Mapping
from dataclasses import dataclass, field
from functools import partial
from http import HTTPStatus
from typing import Final

import aiohttp
import msgspec
from yarl import URL

from penstock_api import names
from penstock_operator.net.http import CallFailed, HttpCall, call
from penstock_operator.observe.shared_answers import SharedAnswers
from penstock_operator.observed import BatchLoad, PoolObject

log = logging.getLogger(__name__)

LIMIT_BYTES: Final = 4 * 1024 * 1024
CACHE_SECONDS: Final = 10.0
"""Age below which an answer is reused: batch work is planned for hours."""
MAX_LINES: Final = 10**9
"""Lines of a batch beyond which it has no more."""
IN_PROGRESS: Final = "in_progress"

ByModel = Mapping[str, tuple[BatchLoad, ...]]


class _Counts(msgspec.Struct):
    total: int = 0
    completed: int = 0
    failed: int = 0


class _Batch(msgspec.Struct):
    status: str
    created_at: float
    expires_at: float
    counts: _Counts
    model: str | None = None


class _Status(msgspec.Struct):
    batches: list[_Batch]


_DECODER: Final = msgspec.json.Decoder(_Status)


def service_url(namespace: str) -> URL:
    """Return the URL of a namespace's batch service."""
    host = f"{names.BATCHES_NAME}.{namespace}.svc"
    port = names.BATCHES_STATUS_PORT
    return URL.build(scheme="http", host=host, port=port, path=names.PATH_BATCHES_STATUS)


@dataclass(slots=True)
class BatchReader:
    """Reads batch services."""

    session: aiohttp.ClientSession
    url_of: Callable[[str], URL] = service_url
    """URL of the service of a namespace."""
    _answers: SharedAnswers[ByModel | None] = field(
        default_factory=lambda: SharedAnswers(CACHE_SECONDS)
    )

    async def read(self, pool: PoolObject, now: float) -> tuple[BatchLoad, ...] | None:
        """Return the batches in progress of the pool's model; None without `spec.batchWork`, or without an answer."""
        if pool.spec.batch_work is None:
            return None
        read = partial(self._answer, pool.namespace)
        by_model = await self._answers.of(pool.namespace, now, read)
        return None if by_model is None else by_model.get(pool.spec.model.name or pool.name, ())

    async def _answer(self, namespace: str) -> ByModel | None:
        try:
            request = HttpCall("GET", self.url_of(namespace), LIMIT_BYTES)
            status, body = await call(self.session, request)
            if status != HTTPStatus.OK:
                raise CallFailed(f"responded {status}")
            return by_model(body)
        except (CallFailed, msgspec.MsgspecError, RecursionError) as error:
            log.warning("%s: the batch service %s", namespace, error)
            return None


def by_model(content: bytes) -> ByModel:
    """Return the batches in progress by model.

    Raises:
        msgspec.MsgspecError: the content is not a batch service's status.
    """
    loads = defaultdict(list)
    for batch in _DECODER.decode(content).batches:
        if batch.model is not None and batch.status == IN_PROGRESS:
            counts = batch.counts
            left = min(max(counts.total - counts.completed - counts.failed, 0), MAX_LINES)
            loads[batch.model].append(BatchLoad(left, batch.created_at, batch.expires_at))
    return {model: tuple(batches) for model, batches in loads.items()}
