"""Download of a repository by the real huggingface_hub from a server with the hub's API."""

import threading
import time
from pathlib import Path

import huggingface_hub.constants
import pytest

from penstock_api.pod_contract import LoadStage
from penstock_runtime.config import RuntimeConfig
from penstock_runtime.sources.errors import (
    CacheFull,
    ModelAccessDenied,
    ModelCorrupt,
    ModelNotFound,
    ModelSourceUnreachable,
)
from penstock_runtime.sources.fetch import fetch_model
from penstock_runtime.sources.progress import DownloadProgress
from tests.unit.runtime.settings import with_settings
from tests.unit.runtime.sources.conftest import FILES, LARGE, Configure
from tests.unit.runtime.sources.hub import Hub, entry

TOTAL = len(FILES["config.json"]) + len(LARGE)
"""The files of the repository that are fetched: without the weights in an unused format."""


def fetched(config: RuntimeConfig) -> set[str]:
    fetch_model(config, DownloadProgress())
    folder = config.files_folder
    return {str(path.relative_to(folder)) for path in folder.rglob("*") if path.is_file()}


@pytest.fixture
def config(configured: Configure) -> RuntimeConfig:
    return configured("huggingFace", repository="owner/tiny", path=".")


def test_the_files_that_the_runtime_reads_are_fetched_and_counted(
    hub: Hub, config: RuntimeConfig
) -> None:
    meter = DownloadProgress()
    fetch_model(config, meter)
    assert (config.files_folder / "model.safetensors").read_bytes() == LARGE
    assert not (config.files_folder / "pytorch_model.bin").exists()
    progress = meter.read()
    expected = sum(len(body) for path, body in FILES.items() if not path.endswith(".bin"))
    assert (progress.stage, progress.loaded_bytes, progress.total_bytes) == (
        LoadStage.STARTING,
        expected,
        expected,
    )


def test_without_a_cache_in_the_spec_the_pods_own_space_is_filled(
    hub: Hub, configured: Configure
) -> None:
    config = configured("huggingFace", repository="owner/tiny", cache=None)
    fetch_model(config, DownloadProgress())
    assert (config.files_folder / "config.json").is_file()


def test_a_mirror_that_answers_with_large_files_itself_is_read(
    hub: Hub, configured: Configure
) -> None:
    hub.redirects = False
    config = configured("huggingFace", repository="owner/tiny", path=".")
    assert fetched(config) >= {"config.json", "model.safetensors"}


def test_one_program_of_a_repository_is_fetched_alone(hub: Hub, configured: Configure) -> None:
    config = configured("huggingFace", repository="owner/tiny", path="sub/model.pt2")
    assert fetched(config) == {"sub/model.pt2"}


def test_a_second_pod_on_the_same_cache_fetches_nothing(hub: Hub, config: RuntimeConfig) -> None:
    fetched(config)
    hub.sent.clear()
    assert "model.safetensors" in fetched(config)
    assert hub.sent == []


def test_a_broken_transfer_resumes(hub: Hub, config: RuntimeConfig) -> None:
    hub.cut_after = 400_000
    meter = DownloadProgress()
    fetch_model(config, meter)
    assert (config.files_folder / "model.safetensors").read_bytes() == LARGE
    starts = [start for path, start, _ in hub.sent if path == "model.safetensors"]
    assert len(starts) >= 3
    assert starts[0] == 0
    assert all(start > 0 for start in starts[1:])
    assert meter.read().loaded_bytes == meter.read().total_bytes


def test_a_restarted_pod_keeps_the_files_of_its_predecessor(
    hub: Hub, config: RuntimeConfig, monkeypatch: pytest.MonkeyPatch
) -> None:
    partial = config.files.model_folder / "models--owner--tiny" / "blobs"
    partial.mkdir(parents=True)
    blob = entry("model.safetensors", LARGE)["lfs"]["oid"]
    (partial / f"{blob}.partial").write_bytes(LARGE[:700_000])
    fetched(config)
    assert ("model.safetensors", 700_000, len(LARGE) - 700_000) in hub.sent
    assert (config.files_folder / "model.safetensors").read_bytes() == LARGE


def test_a_token_is_sent_to_the_hub_and_a_missing_token_is_a_reason(
    hub: Hub, config: RuntimeConfig, monkeypatch: pytest.MonkeyPatch
) -> None:
    hub.token = "hf_secret"  # noqa: S105
    monkeypatch.delenv("HF_TOKEN", raising=False)
    with pytest.raises(ModelAccessDenied, match="tokenSecretRef") as rejected:
        fetched(config)
    assert "hf_secret" not in str(rejected.value)
    monkeypatch.setenv("HF_TOKEN", "hf_secret")
    assert "model.safetensors" in fetched(config)


@pytest.mark.parametrize(
    "source",
    [
        {"repository": "owner/none"},
        {"repository": "owner/tiny", "revision": "v9"},
        {"repository": "owner/tiny", "path": "nowhere"},
    ],
    ids=["repository", "revision", "path"],
)
def test_a_missing_repository_or_file_is_not_found(
    hub: Hub, configured: Configure, source: dict[str, str]
) -> None:
    with pytest.raises(ModelNotFound, match=r"spec\.model\.source\.huggingFace"):
        fetched(configured("huggingFace", **source))


def test_a_content_with_a_wrong_digest_is_discarded(hub: Hub, config: RuntimeConfig) -> None:
    hub.spoil = True
    with pytest.raises(ModelCorrupt, match="does not match the digest"):
        fetched(config)
    assert not list(config.files.model_folder.rglob("*.partial"))
    hub.spoil = False
    assert "model.safetensors" in fetched(config)


@pytest.mark.parametrize(
    ("status", "reason"), [(408, "408"), (429, "429"), (503, "503"), (0, "ProtocolError|ReadError")]
)
def test_without_the_hub_only_a_complete_cache_serves(
    hub: Hub, config: RuntimeConfig, status: int, reason: str
) -> None:
    hub.down, hub.status = True, status
    with pytest.raises(ModelSourceUnreachable, match=reason):
        fetched(config)
    hub.down = False
    expected = fetched(config)
    hub.down = True
    assert fetched(config) == expected
    next(config.files.model_folder.rglob("model.safetensors")).unlink()
    with pytest.raises(ModelSourceUnreachable, match=reason):
        fetched(config)


@pytest.mark.parametrize("content", [FILES["config.json"], b"[]"], ids=["cached", "new"])
def test_a_new_commit_whose_files_cannot_be_read_leaves_the_last_complete_snapshot_in_use(
    hub: Hub, config: RuntimeConfig, content: bytes
) -> None:
    expected = fetched(config)
    hub.files, hub.sha, hub.files_down = {**FILES, "new.json": content}, "b" * 40, True
    assert fetched(config) == expected
    hub.files_down = False
    assert fetched(config) == expected | {"new.json"}


def test_a_truncated_content_in_the_cache_is_downloaded_again(
    hub: Hub, config: RuntimeConfig
) -> None:
    fetched(config)
    blob = next(config.files.model_folder.rglob("model.safetensors")).resolve()
    blob.write_bytes(LARGE[:1000])
    meter = DownloadProgress()
    fetch_model(config, meter)
    assert (config.files_folder / "model.safetensors").read_bytes() == LARGE
    assert meter.read().loaded_bytes == meter.read().total_bytes


def test_weights_in_the_format_of_mistral_are_not_downloaded_in_addition(
    hub: Hub, config: RuntimeConfig
) -> None:
    names = ("consolidated.safetensors", "consolidated-00001-of-00002.safetensors", "sub/consolidated.safetensors")  # fmt: skip
    hub.files = {**FILES, **dict.fromkeys(names, LARGE)}
    assert fetched(config) == FILES.keys() - {"pytorch_model.bin"}


def test_offline_mode_serves_from_the_cache_and_names_missing_files(
    hub: Hub, config: RuntimeConfig, monkeypatch: pytest.MonkeyPatch
) -> None:
    with monkeypatch.context() as offline:
        offline.setattr(huggingface_hub.constants, "HF_HUB_OFFLINE", True)
        with pytest.raises(ModelSourceUnreachable, match="HF_HUB_OFFLINE"):
            fetched(config)
    fetched(config)
    hub.down = True
    monkeypatch.setattr(huggingface_hub.constants, "HF_HUB_OFFLINE", True)
    assert "model.safetensors" in fetched(config)


def test_a_model_that_exceeds_its_ephemeral_cache_is_rejected_before_the_download(
    hub: Hub, configured: Configure
) -> None:
    cache = {"type": "Ephemeral", "sizeLimit": "1Mi"}
    with pytest.raises(CacheFull, match=r"cache\.sizeLimit is 0\.00 GB: raise it"):
        fetched(configured("huggingFace", repository="owner/tiny", cache=cache))
    assert hub.sent == []


def test_pods_that_start_together_fetch_once_and_the_waiting_one_shows_progress(
    hub: Hub, config: RuntimeConfig, tmp_path: Path
) -> None:
    hub.pause_seconds = 0.2
    meters = [DownloadProgress() for _ in range(3)]
    pods = [with_settings(config, fetched_folder=tmp_path / f"pod-{n}") for n in range(3)]
    threads = [
        threading.Thread(target=fetch_model, args=pair) for pair in zip(pods, meters, strict=True)
    ]
    for thread in threads:
        thread.start()
    observed = set()
    while any(thread.is_alive() for thread in threads):
        observed |= {
            (m.read().stage, m.read().loaded_bytes > 0, m.read().total_bytes > 0) for m in meters
        }
        time.sleep(0.05)
    for thread in threads:
        thread.join()
    assert (LoadStage.WAITING, True, True) in observed
    assert sum(sent for path, _, sent in hub.sent if path == "model.safetensors") == len(LARGE)
    assert all((pod.files_folder / "model.safetensors").is_file() for pod in pods)
