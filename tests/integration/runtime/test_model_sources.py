"""A pod downloads its model: the control port reports progress, failures have a reason, and the model serves."""

import asyncio
import json
import os
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import aiohttp
import pytest

from penstock_operator.act.pod_limits import acknowledgement
from penstock_operator.observed import Acknowledgement
from tests.support.encoders.directories import write
from tests.support.kube.pools import until
from tests.unit.runtime.sources import bucket
from tests.unit.runtime.sources.hub import Hub, serving

CACHE = {"type": "PersistentVolumeClaim", "claimName": "cache"}


@pytest.fixture(scope="module")
def files(tmp_path_factory: pytest.TempPathFactory) -> dict[str, bytes]:
    """A small real encoder, and a large file that makes the download take a while."""
    folder = tmp_path_factory.mktemp("encoder")
    write(folder)
    contents = {
        str(path.relative_to(folder)): path.read_bytes()
        for path in folder.rglob("*")
        if path.is_file()
    }
    return {**contents, "large.txt": bytes(2**25)}


@pytest.fixture
def hub(files: dict[str, bytes]) -> Iterator[Hub]:
    with serving(Hub(files, chunk_bytes=2**21)) as served:
        yield served


def environment(tmp_path: Path, source: dict[str, Any]) -> dict[str, str]:
    kind = {"huggingFace": "HuggingFace", "s3": "S3"}[next(iter(source))]
    model = {"name": "texts", "task": "Embedding", "source": {"type": kind, **source}}
    (tmp_path / "cache").mkdir(exist_ok=True)
    (tmp_path / "home").mkdir(exist_ok=True)
    return {
        "PENSTOCK_MODEL": json.dumps(model),
        "PENSTOCK_MODEL_FOLDER": str(tmp_path / "cache"),
        "PENSTOCK_FETCHED_FOLDER": str(tmp_path / "scratch" / "model"),
        "HOME": str(tmp_path / "home"),
        "PYTHONPATH": os.environ.get("PYTHONPATH", ""),
    }


def hub_environment(tmp_path: Path, hub: Hub) -> dict[str, str]:
    source = {"huggingFace": {"repository": "owner/tiny", "cache": CACHE}}
    return {**environment(tmp_path, source), "HF_ENDPOINT": hub.url, "HF_HUB_DISABLE_XET": "1"}


async def embeds(pod: Any) -> bool:
    url = f"{pod.client}/v1/embeddings"
    async with (
        aiohttp.ClientSession() as session,
        session.post(url, json={"input": "w1 w2"}) as reply,
    ):
        return len((await reply.json())["data"][0]["embedding"]) > 0


def acknowledged(pod: Any) -> Acknowledgement:
    """Return the pod's state as the operator parses it."""
    status, body = pod.get("/control/v1/state")
    return acknowledgement("/control/v1/state", status, body.encode())


def download_progress(pod: Any) -> Acknowledgement | None:
    """Return the state once the download has started, else None."""
    if not pod.client:
        pod.listening()
    answer = acknowledged(pod)
    return answer if answer.loading is not None and answer.loading.total_bytes else None


async def test_a_repository_is_downloaded_with_progress_on_the_control_port_and_then_serves(
    launch: Any, tmp_path: Path, hub: Hub
) -> None:
    hub.pause_seconds = 0.1
    pod = launch(**hub_environment(tmp_path, hub))
    await asyncio.to_thread(pod.listening)
    progress: set[int] = set()
    while (answer := await asyncio.to_thread(acknowledged, pod)).loading is not None:
        progress.add(answer.loading.loaded_bytes)
        assert answer.loading.loaded_bytes <= (answer.loading.total_bytes or 0)
        await asyncio.sleep(0.05)
    assert len(progress) >= 4, "the bytes grow while the model comes"
    assert answer.generation is not None
    await asyncio.to_thread(pod.ready)
    assert await embeds(pod)


async def test_a_killed_pod_resumes_from_the_cache_and_logs_no_token(
    launch: Any, tmp_path: Path, hub: Hub
) -> None:
    hub.token, hub.pause_seconds = "hf_very_secret", 0.2
    given = {**hub_environment(tmp_path, hub), "HF_TOKEN": "hf_very_secret"}
    first = launch(**given)
    await asyncio.to_thread(first.listening)
    partials = tmp_path / "cache" / "models--owner--tiny" / "blobs"

    def half_way() -> bool:
        return any(path.stat().st_size > 2**18 for path in partials.glob("*.partial"))

    await asyncio.to_thread(until, "half the model has come", half_way, seconds=60)
    first.kill()
    hub.pause_seconds = 0.0
    resumed_pod = launch(**given, PENSTOCK_LOG_LEVEL="DEBUG")
    await asyncio.to_thread(resumed_pod.ready)
    resumed = [start for path, start, _ in hub.sent if path == "large.txt" and start > 0]
    assert resumed
    assert await embeds(resumed_pod)
    for pod in (first, resumed_pod):
        assert "hf_very_secret" not in pod.log.read_text()


def test_a_pod_that_receives_sigterm_during_the_download_stops_at_once(
    launch: Any, tmp_path: Path, hub: Hub
) -> None:
    hub.pause_seconds = 3.0
    pod = launch(**hub_environment(tmp_path, hub))
    until("it fetches", lambda: download_progress(pod) is not None, seconds=90)
    pod.process.terminate()
    assert pod.stopped(within_seconds=15) == 0


@pytest.mark.parametrize(
    ("change", "reason"),
    [
        ({"token": "hf_other"}, "ModelAccessDenied"),
        ({"spoil": True}, "ModelCorrupt"),
    ],
)
def test_the_termination_message_starts_with_the_reason(
    launch: Any, tmp_path: Path, hub: Hub, change: dict[str, Any], reason: str
) -> None:
    for name, value in change.items():
        setattr(hub, name, value)
    pod = launch(**hub_environment(tmp_path, hub))
    assert pod.stopped() == 1
    assert (pod.folder / "termination-log").read_text().startswith(f"{reason}: ")


async def test_a_bucket_serves_as_a_repository_does(
    launch: Any, tmp_path: Path, files: dict[str, bytes]
) -> None:
    with bucket.serving() as store:
        for path, body in files.items():
            store.put(f"encoder/{path}", body)
        source = {
            "s3": {
                "bucket": "models",
                "prefix": "encoder",
                "endpoint": store.url,
                "region": "us-east-1",
                "cache": CACHE,
            }
        }
        keys = {**bucket.KEYS, "AWS_DEFAULT_REGION": "us-east-1"}
        pod = launch(**environment(tmp_path, source), **keys)
        await asyncio.to_thread(pod.ready)
        assert await embeds(pod)
        assert bucket.KEYS["AWS_SECRET_ACCESS_KEY"] not in pod.log.read_text()
