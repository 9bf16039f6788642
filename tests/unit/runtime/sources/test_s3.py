"""Download of a bucket's folder by s3fs from a real S3 server."""

import time
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest
from s3fs import S3FileSystem

from penstock_api.types.sources import S3Source
from penstock_runtime.config import RuntimeConfig
from penstock_runtime.sources import downloads, s3
from penstock_runtime.sources.downloads import RemoteFile
from penstock_runtime.sources.errors import (
    ModelAccessDenied,
    ModelCorrupt,
    ModelNotFound,
    ModelSourceUnreachable,
)
from penstock_runtime.sources.fetch import fetch_model
from penstock_runtime.sources.progress import DownloadProgress
from tests.unit.runtime.sources.bucket import KEYS, Bucket, serving
from tests.unit.runtime.sources.conftest import LARGE, Configure


@pytest.fixture(scope="module")
def server() -> Iterator[Bucket]:
    with serving() as bucket:
        bucket.put("text/tiny/config.json", b"{}")
        bucket.put("text/tiny/model.safetensors", LARGE)
        bucket.put("programs/model.pt2", LARGE[::-1])
        yield bucket


@pytest.fixture(autouse=True)
def credentials(monkeypatch: pytest.MonkeyPatch) -> None:
    for name, value in KEYS.items():
        monkeypatch.setenv(name, value)
    monkeypatch.setenv("AWS_DEFAULT_REGION", "us-east-1")
    monkeypatch.setenv("AWS_EC2_METADATA_DISABLED", "true")
    monkeypatch.setattr(downloads, "FIRST_PAUSE_SECONDS", 0.01)
    monkeypatch.setattr(s3, "PART_BYTES", 2**16)
    monkeypatch.setattr(s3, "CONNECT_SECONDS", 1)


@pytest.fixture
def config(server: Bucket, configured: Configure) -> RuntimeConfig:
    return configured("s3", bucket="models", prefix="text/tiny", endpoint=server.url)


def fetched(config: RuntimeConfig) -> set[str]:
    fetch_model(config, DownloadProgress())
    folder = config.files_folder
    return {str(path.relative_to(folder)) for path in folder.rglob("*") if path.is_file()}


def test_a_folder_is_fetched_under_its_own_names_and_counted(config: RuntimeConfig) -> None:
    meter = DownloadProgress()
    fetch_model(config, meter)
    assert (config.files_folder / "model.safetensors").read_bytes() == LARGE
    assert (config.files_folder / "config.json").read_bytes() == b"{}"
    assert meter.read().loaded_bytes == meter.read().total_bytes == len(LARGE) + 2


def test_one_program_is_fetched_alone(server: Bucket, configured: Configure) -> None:
    config = configured("s3", bucket="models", path="programs/model.pt2", endpoint=server.url)
    assert fetched(config) == {"programs/model.pt2"}


def test_a_program_is_fetched_with_the_weights_next_to_it(
    server: Bucket, configured: Configure
) -> None:
    for name in ("m.onnx", "m.onnx_data", "m.onnx.json", "ir.xml", "ir.bin"):
        server.put(f"others/{name}", name.encode())
    onnx = configured("s3", bucket="models", prefix="others", path="m.onnx", endpoint=server.url)
    assert fetched(onnx) == {"m.onnx", "m.onnx_data"}
    ir = configured("s3", bucket="models", prefix="others", path="ir.xml", endpoint=server.url)
    assert fetched(ir) == {"ir.xml", "ir.bin"}


def test_a_restarted_pod_resumes_the_download(
    config: RuntimeConfig, monkeypatch: pytest.MonkeyPatch
) -> None:
    offsets: list[tuple[str, int]] = []
    real = s3.S3Folder.append

    def breaks_once(self: s3.S3Folder, file: RemoteFile, out: Any, offset: int) -> None:
        offsets.append((file.path, offset))
        if file.path == "model.safetensors" and offset == 0:
            out.write(LARGE[:300_000])
            raise KeyboardInterrupt  # as if the process were killed there
        real(self, file, out, offset)

    monkeypatch.setattr(s3.S3Folder, "append", breaks_once)
    with pytest.raises(KeyboardInterrupt):
        fetched(config)
    assert "model.safetensors" in fetched(config)
    assert ("model.safetensors", 300_000) in offsets
    assert (config.files_folder / "model.safetensors").read_bytes() == LARGE


def test_a_rewritten_object_is_fetched_again(server: Bucket, configured: Configure) -> None:
    server.put("changing/config.json", b"{1}")
    config = configured("s3", bucket="models", prefix="changing", endpoint=server.url)
    fetched(config)
    before = config.files_folder.resolve()
    server.put("changing/config.json", b"{2}")
    fetched(config)
    assert (config.files_folder / "config.json").read_bytes() == b"{2}"
    assert (before / "config.json").read_bytes() == b"{1}", "running pods keep it"


def test_a_content_that_does_not_match_its_etag_is_discarded(
    config: RuntimeConfig, monkeypatch: pytest.MonkeyPatch
) -> None:
    def spoil(self: s3.S3Folder, file: RemoteFile, out: Any, offset: int) -> None:
        out.write(bytes(file.size - offset))

    monkeypatch.setattr(s3.S3Folder, "append", spoil)
    with pytest.raises(ModelCorrupt):
        fetched(config)
    assert not list(config.files.model_folder.rglob("*.partial"))


@pytest.mark.parametrize("size", [len(LARGE), 3 * 2**18 - 1], ids=["equal", "smaller"])
def test_an_object_that_is_replaced_while_it_is_read_is_discarded(
    server: Bucket, configured: Configure, monkeypatch: pytest.MonkeyPatch, size: int
) -> None:
    key = "replaced/model.safetensors"
    server.put_in_parts(key, LARGE)
    real = s3._file_system

    def replaced(source: S3Source) -> S3FileSystem:
        files = real(source)
        read = files.cat_ranges

        def cat_ranges(*given: Any, **more: Any) -> Any:
            parts = read(*given, **more)
            server.put_in_parts(key, LARGE[::-1][:size])
            return parts

        files.cat_ranges = cat_ranges
        return files

    config = configured("s3", bucket="models", prefix="replaced", endpoint=server.url)
    monkeypatch.setattr(s3, "_file_system", replaced)
    with pytest.raises(ModelCorrupt, match="changed while it was read"):
        fetched(config)
    assert not list(config.files.model_folder.rglob("*.partial"))


def test_an_object_without_a_hash_is_fetched(server: Bucket, configured: Configure) -> None:
    server.put_in_parts("parts/sub/model.safetensors", LARGE)
    config = configured("s3", bucket="models", prefix="parts", endpoint=server.url)
    assert fetched(config) == {"sub/model.safetensors"}


@pytest.mark.parametrize(
    "source",
    [{"bucket": "absent"}, {"bucket": "models", "prefix": "nowhere"}],
    ids=["bucket", "prefix"],
)
def test_a_missing_bucket_or_object_is_not_found(
    server: Bucket, configured: Configure, source: dict[str, str]
) -> None:
    with pytest.raises(ModelNotFound, match=r"spec\.model\.source\.s3"):
        fetched(configured("s3", endpoint=server.url, **source))


def test_without_the_store_only_a_complete_cache_serves(
    configured: Configure, tmp_path: Path
) -> None:
    with serving() as server:
        server.put("tiny/config.json", b"{}")
        config = configured("s3", bucket="models", prefix="tiny", endpoint=server.url)
        fetched(config)
    began = time.monotonic()
    assert fetched(config) == {"config.json"}
    assert time.monotonic() - began < 30
    empty = configured("s3", bucket="models", prefix="other", endpoint=server.url)
    with pytest.raises(ModelSourceUnreachable):
        fetched(empty)
    [ref] = config.files.model_folder.glob("s3--*/refs/*")
    for spoiled in ("", "\0" * 32, "../blobs"):
        ref.write_text(spoiled)
        with pytest.raises(ModelSourceUnreachable):
            fetched(config)


def test_a_rejection_names_the_secret_to_set(
    config: RuntimeConfig, monkeypatch: pytest.MonkeyPatch
) -> None:
    def reject(*given: Any, **more: Any) -> None:
        raise PermissionError("Forbidden")

    monkeypatch.setattr(S3FileSystem, "find", reject)
    with pytest.raises(ModelAccessDenied, match="credentialsSecretRef"):
        fetched(config)
