"""`fetch_model`: downloads the model of a pool before the engine starts."""

import asyncio
import logging
import threading
from collections.abc import Callable
from contextlib import suppress
from pathlib import Path

from penstock_api.pod_contract import LoadStage
from penstock_api.types.fields import byte_count
from penstock_api.types.sources import HuggingFaceSource, ModelCache, ModelSource
from penstock_runtime.config import RuntimeConfig
from penstock_runtime.sources.cache import Cache
from penstock_runtime.sources.progress import DownloadProgress

NOISY_LOGGERS = (
    "huggingface_hub",
    "httpx2",
    "httpcore2",
    "botocore",
    "aiobotocore",
    "s3fs",
    "fsspec",
)
"""Loggers of libraries that log signed URLs, which are secrets; errors are reported as reasons instead."""


async def fetched(config: RuntimeConfig, meter: DownloadProgress) -> None:
    """Download the model in a daemon thread, which does not delay the exit of the pod.

    Raises:
        ModelLoadFailed: as `fetch_model`.
    """
    loop = asyncio.get_running_loop()
    done: asyncio.Future[None] = loop.create_future()

    def end(error: BaseException | None) -> None:
        if done.done():
            return
        if error is None:
            done.set_result(None)
        else:
            done.set_exception(error)

    def run() -> None:
        error: BaseException | None = None
        try:
            fetch_model(config, meter)
        except BaseException as raised:  # noqa: BLE001  raised where the future is awaited
            error = raised
        with suppress(RuntimeError):  # the loop is closed: the pod is stopping
            loop.call_soon_threadsafe(end, error)

    threading.Thread(target=run, name="fetch-model", daemon=True).start()
    await done


def fetch_model(config: RuntimeConfig, meter: DownloadProgress) -> None:
    """Download the model to `config.files_folder` if its source requires it; return when it is complete.

    Raises:
        ModelLoadFailed: the message has one line and names the remedy.
    """
    fetched = config.model.source.fetched
    if fetched is None:
        return
    for name in NOISY_LOGGERS:
        logging.getLogger(name).setLevel(logging.ERROR)
    cache = Cache(config.files.model_folder, _limit(fetched.cache))
    snapshot = _fetcher(config.model.source)(cache, meter)
    _link(config.files_folder, snapshot)
    meter.enter(LoadStage.STARTING)


def _fetcher(source: ModelSource) -> Callable[[Cache, DownloadProgress], Path]:
    """Return the function that downloads from this source; its libraries are imported on demand."""
    fetched = source.fetched
    if isinstance(fetched, HuggingFaceSource):
        from penstock_runtime.sources import hugging_face  # noqa: PLC0415

        return lambda cache, meter: hugging_face.fetch(fetched, cache, meter)
    from penstock_runtime.sources import s3  # noqa: PLC0415

    assert fetched is not None  # noqa: S101 - checked by the caller
    return lambda cache, meter: s3.fetch(fetched, cache, meter)


def _limit(cache: ModelCache | None) -> int | None:
    limit = cache.size_limit if cache is not None else None
    return None if limit is None else byte_count(limit)


def _link(place: Path, snapshot: Path) -> None:
    """Link `place` to the snapshot: the engine's process knows the path from the configuration."""
    place.parent.mkdir(parents=True, exist_ok=True)
    place.unlink(missing_ok=True)
    place.symlink_to(snapshot, target_is_directory=True)
