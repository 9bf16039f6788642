"""Download of a model repository from the Hugging Face Hub, in the hub's own cache layout.

`huggingface_hub` lists the repository, resolves each file, and finally creates the snapshot, or returns a complete
cached one when the hub is unreachable or returns errors, or `HF_HUB_OFFLINE` is set. `ModelStore` downloads the contents, because
`snapshot_download` neither resumes after a restart of the process (its partial files have random names), nor verifies
digests, nor checks free space first, nor shares its progress with pods that wait for the same cache.
"""

from collections.abc import Iterator
from contextlib import contextmanager, suppress
from dataclasses import dataclass
from fnmatch import fnmatch
from pathlib import Path
from typing import BinaryIO, cast
from urllib.parse import urlsplit

import httpx2
from huggingface_hub import HfApi, get_hf_file_metadata, hf_hub_url, snapshot_download
from huggingface_hub.errors import (
    FileMetadataError,
    GatedRepoError,
    HfHubHTTPError,
    LocalEntryNotFoundError,
    OfflineModeIsEnabled,
    RepositoryNotFoundError,
)
from huggingface_hub.file_download import http_get, repo_folder_name
from huggingface_hub.hf_api import RepoFile
from huggingface_hub.utils import (  # type: ignore[attr-defined]  # listed in its `__all__`, loaded lazily
    build_hf_headers,
    disable_progress_bars,
)
from typing_extensions import override

from penstock_api.types.sources import HuggingFaceSource
from penstock_runtime.sources.cache import Cache, record
from penstock_runtime.sources.downloads import Digest, ModelStore, Remote, RemoteFile, Sink
from penstock_runtime.sources.errors import (
    ModelAccessDenied,
    ModelNotFound,
    ModelSourceUnreachable,
)
from penstock_runtime.sources.program_files import program_files
from penstock_runtime.sources.progress import DownloadProgress

MAIN = "main"
LIST_SECONDS = 30.0
IGNORED_FILES = (
    "*.bin", "*.pt", "*.pth", "*.ckpt", "*.h5", "*.msgpack", "*.onnx", "*.onnx_data", "*.gguf", "*.tflite", "*.ot",
    "original/*", "metal/*", "consolidated*.safetensors", "*/consolidated*.safetensors",
)  # fmt: skip
"""Weights in other formats than safetensors of transformers, which no directory of a model needs."""
LARGEST_BYTES = 50 * 10**9
"""The hub's size limit for plain HTTP downloads; `snapshot_download` fetches larger files by another protocol."""


@dataclass(frozen=True, slots=True)
class Commit(Remote):
    """A repository at one commit."""

    repository: str
    sha: str

    @override
    def append(self, file: RemoteFile, out: Sink, offset: int) -> None:
        with _hub_errors(self.repository):
            url = hf_hub_url(self.repository, file.path, revision=self.sha)
            metadata = get_hf_file_metadata(url)
            http_get(
                metadata.location,
                cast("BinaryIO", out),
                resume_size=offset,
                headers=_headers(url, metadata.location),
                expected_size=file.size,
            )

    @override
    def is_current(self, file: RemoteFile) -> bool:
        return False  # git and LFS both name contents by their hash


def fetch(source: HuggingFaceSource, cache: Cache, meter: DownloadProgress) -> Path:
    """Return the folder of the complete snapshot. Raises `ModelLoadFailed`."""
    disable_progress_bars()
    with cache.locked(repo_folder_name(repo_id=source.repository, repo_type="model"), meter):
        try:
            return _download(source, cache, meter)
        except ModelSourceUnreachable:
            with suppress(LocalEntryNotFoundError):
                return _snapshot(source, cache, local_files_only=True)
            raise


def _download(source: HuggingFaceSource, cache: Cache, meter: DownloadProgress) -> Path:
    """Download the selected files, and record the commit of the branch or tag once its snapshot is complete."""
    with _hub_errors(source.repository):
        listed = _list(source)
        if listed is None:
            return _snapshot(source, cache)
    commit, entries = listed
    patterns = patterns_of(source)
    files = [
        _file(entry)
        for entry in entries
        if is_selected(entry.path, patterns) and _is_plain_download(entry)
    ]
    if not files:
        raise ModelNotFound(
            f"repository '{source.repository}' has no files at path '{source.path or '.'}':"
            " correct spec.model.source.huggingFace.path"
        )
    meter.begin(sum(file.size for file in files))
    folder = cache.folder / repo_folder_name(repo_id=source.repository, repo_type="model")
    ModelStore(cache, folder / "blobs", meter).fetch(commit, files)
    with _hub_errors(source.repository):
        snapshot = _snapshot(source, cache, revision=commit.sha)
    if source.revision != commit.sha:
        record(folder / "refs" / (source.revision or MAIN), commit.sha)
    return snapshot


def _snapshot(
    source: HuggingFaceSource,
    cache: Cache,
    *,
    revision: str | None = None,
    local_files_only: bool = False,
) -> Path:
    """Return the folder of the complete snapshot, which `huggingface_hub` creates unless it is cached."""
    return Path(
        snapshot_download(
            source.repository,
            revision=revision or source.revision or MAIN,
            cache_dir=cache.folder,
            allow_patterns=list(patterns_of(source)),
            ignore_patterns=None if program_files(source.path or ".") else list(IGNORED_FILES),
            local_files_only=local_files_only,
        )
    )


def patterns_of(source: HuggingFaceSource) -> tuple[str, ...]:
    """Return the shell patterns of the selected files."""
    path = (source.path or ".").strip("/")
    if files := program_files(path):
        return files
    return ("*",) if path == "." else (f"{path}/*",)


def is_selected(path: str, patterns: tuple[str, ...]) -> bool:
    """Return whether a file of the repository is downloaded; a file named exactly always is."""
    if path in patterns:
        return True
    return any(fnmatch(path, pattern) for pattern in patterns) and not any(
        fnmatch(path, pattern) for pattern in IGNORED_FILES
    )


def _list(source: HuggingFaceSource) -> tuple[Commit, list[RepoFile]] | None:
    """Return the commit and its files; None if the hub is unreachable or offline mode is set."""
    api = HfApi()
    try:
        info = api.model_info(source.repository, revision=source.revision, timeout=LIST_SECONDS)
        if info.sha is None:
            raise ModelNotFound(f"repository '{source.repository}' has no commit: push a model")
        tree = api.list_repo_tree(source.repository, recursive=True, revision=info.sha)
        return Commit(source.repository, info.sha), [
            entry for entry in tree if isinstance(entry, RepoFile)
        ]
    except (OfflineModeIsEnabled, httpx2.ConnectError, httpx2.TimeoutException):
        return None  # snapshot_download checks whether the cache is complete


def _is_plain_download(entry: RepoFile) -> bool:
    return entry.size <= LARGEST_BYTES


def _file(entry: RepoFile) -> RemoteFile:
    if entry.lfs is not None:
        return RemoteFile(
            entry.path, entry.size, entry.lfs.sha256, Digest("sha256", entry.lfs.sha256)
        )
    return RemoteFile(entry.path, entry.size, entry.blob_id, Digest("git", entry.blob_id))


def _headers(url: str, location: str) -> dict[str, str]:
    """Return the headers of the download: the token is never sent to another host."""
    same = urlsplit(url).netloc == urlsplit(location).netloc
    return build_hf_headers(token=None if same else False)


@contextmanager
def _hub_errors(repository: str) -> Iterator[None]:
    """Convert the library's errors to reasons with a remedy."""
    try:
        yield
    except HfHubHTTPError as error:
        raise _of_answer(repository, error) from error
    except LocalEntryNotFoundError as error:
        if isinstance(error.__cause__, FileMetadataError):
            raise ModelSourceUnreachable(
                f"the server that answered for '{repository}' is not a Hugging Face Hub:"
                " correct HF_ENDPOINT, or the proxy in front of it"
            ) from error
        raise ModelSourceUnreachable(
            f"the hub is unreachable, or HF_HUB_OFFLINE is set, and the cache has no complete '{repository}':"
            " let the pod reach the hub once, or fill the cache"
        ) from error
    except httpx2.HTTPError as error:
        raise ModelSourceUnreachable(
            f"the hub did not answer for '{repository}' ({type(error).__name__}): the pod retries"
        ) from error


def _of_answer(repository: str, error: HfHubHTTPError) -> Exception:
    status = error.response.status_code
    if status in (401, 403) or isinstance(error, GatedRepoError):
        return ModelAccessDenied(
            f"the hub rejected the request for '{repository}' with {status}: it does not exist, or is private or gated: set"
            " spec.model.source.huggingFace.tokenSecretRef to a token that may read it"
        )
    if status == 404 or isinstance(error, RepositoryNotFoundError):
        return ModelNotFound(
            f"the hub has no such repository, revision or file of '{repository}': correct"
            " spec.model.source.huggingFace"
        )
    return ModelSourceUnreachable(f"the hub returned {status} for '{repository}': the pod retries")
