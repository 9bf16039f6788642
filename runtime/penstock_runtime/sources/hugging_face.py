"""A model's repository on the Hugging Face Hub, in the hub's own cache layout.

`huggingface_hub` lists the repository, finds each file, and at the end makes the snapshot, or finds a complete one
where the hub is out of reach or `HF_HUB_OFFLINE` is set. The contents are fetched here, so that a pod that starts
again goes on where it stopped, and so that every file is hashed: the library does neither.
"""

from collections.abc import Iterator
from contextlib import contextmanager
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

from penstock_api.types.sources import HuggingFaceSource
from penstock_runtime.sources.cache import Cache
from penstock_runtime.sources.downloads import Digest, ModelStore, RemoteFile, Sink
from penstock_runtime.sources.errors import (
    ModelAccessDenied,
    ModelNotFound,
    ModelSourceUnreachable,
)
from penstock_runtime.sources.progress import DownloadProgress

MAIN = "main"
LIST_SECONDS = 30.0
IGNORED_FILES = (
    "*.bin", "*.pt", "*.pth", "*.ckpt", "*.h5", "*.msgpack", "*.onnx", "*.onnx_data", "*.gguf", "*.tflite", "*.ot",
    "original/*", "metal/*",
)  # fmt: skip
"""Weights in other formats than safetensors, which the runtime does not read."""
LARGEST_BYTES = 50 * 10**9
"""Larger files are not served by plain requests: those are left to huggingface_hub, which has another way."""


@dataclass(frozen=True, slots=True)
class Commit:
    """A repository at one commit, as a `downloads.Remote`."""

    repository: str
    sha: str

    def append(self, file: RemoteFile, out: Sink, offset: int) -> None:
        """As `downloads.Remote.append`."""
        with _hub_errors(self.repository):
            url = hf_hub_url(self.repository, file.path, revision=self.sha)
            found = get_hf_file_metadata(url)
            http_get(
                found.location,
                cast("BinaryIO", out),
                resume_size=offset,
                headers=_headers(url, found.location),
                expected_size=file.size,
            )

    def vouches_for(self, file: RemoteFile) -> bool:
        """As `downloads.Remote.vouches_for`: git and LFS both name a content by its hash."""
        return file.digest is not None


def fetch(source: HuggingFaceSource, cache: Cache, meter: DownloadProgress) -> Path:
    """Return the folder of the snapshot, all its files in the cache. Raises `ModelLoadFailed`."""
    disable_progress_bars()
    patterns = patterns_of(source)
    with cache.held(repo_folder_name(repo_id=source.repository, repo_type="model"), meter):
        with _hub_errors(source.repository):
            listed = _list(source)
        if listed is not None:
            commit, entries = listed
            files = [_file(one) for one in entries if wanted(one.path, patterns) and _plain(one)]
            if not files:
                raise ModelNotFound(
                    f"repository '{source.repository}' has no files at path '{source.path or '.'}':"
                    " correct spec.model.source.huggingFace.path"
                )
            meter.begin(sum(one.size for one in files))
            blobs = cache.folder / repo_folder_name(repo_id=source.repository, repo_type="model")
            ModelStore(cache, blobs / "blobs", meter).fetch(commit, files)
        with _hub_errors(source.repository):
            return Path(
                snapshot_download(
                    source.repository,
                    revision=source.revision or MAIN,
                    cache_dir=cache.folder,
                    allow_patterns=list(patterns),
                    ignore_patterns=None if _is_file(source) else list(IGNORED_FILES),
                )
            )


def patterns_of(source: HuggingFaceSource) -> tuple[str, ...]:
    """Return which files are wanted, as shell patterns."""
    path = (source.path or ".").strip("/")
    if _is_file(source):
        return (path,)
    return ("*",) if path == "." else (f"{path}/*",)


def wanted(path: str, patterns: tuple[str, ...]) -> bool:
    """Return whether a file of the repository is fetched: one that is named whole always is."""
    if path in patterns:
        return True
    return any(fnmatch(path, one) for one in patterns) and not any(
        fnmatch(path, one) for one in IGNORED_FILES
    )


def _is_file(source: HuggingFaceSource) -> bool:
    return (source.path or "").endswith(".pt2")


def _list(source: HuggingFaceSource) -> tuple[Commit, list[RepoFile]] | None:
    """Return the commit and its files; None where the hub is not to be asked, or does not answer."""
    api = HfApi()
    try:
        found = api.model_info(source.repository, revision=source.revision, timeout=LIST_SECONDS)
        if found.sha is None:
            raise ModelNotFound(f"repository '{source.repository}' has no commit: push a model")
        tree = api.list_repo_tree(source.repository, recursive=True, revision=found.sha)
        return Commit(source.repository, found.sha), [
            one for one in tree if isinstance(one, RepoFile)
        ]
    except (OfflineModeIsEnabled, httpx2.ConnectError, httpx2.TimeoutException):
        return None  # snapshot_download knows whether the cache has all of it


def _plain(entry: RepoFile) -> bool:
    return entry.size <= LARGEST_BYTES


def _file(entry: RepoFile) -> RemoteFile:
    if entry.lfs is not None:
        return RemoteFile(
            entry.path, entry.size, entry.lfs.sha256, Digest("sha256", entry.lfs.sha256)
        )
    return RemoteFile(entry.path, entry.size, entry.blob_id, Digest("git", entry.blob_id))


def _headers(url: str, location: str) -> dict[str, str]:
    """Return what is sent for the file itself: the token never goes to another host."""
    same = urlsplit(url).netloc == urlsplit(location).netloc
    return build_hf_headers(token=None if same else False)


@contextmanager
def _hub_errors(repository: str) -> Iterator[None]:
    """Turn the library's errors into reasons, with a remedy."""
    try:
        yield
    except HfHubHTTPError as error:
        raise _of_answer(repository, error) from error
    except LocalEntryNotFoundError as error:
        if isinstance(error.__cause__, FileMetadataError):
            raise ModelSourceUnreachable(
                f"what answers about '{repository}' is no hub: correct HF_ENDPOINT, or the proxy before it"
            ) from error
        raise ModelSourceUnreachable(
            f"the hub is out of reach, or HF_HUB_OFFLINE is set, and the cache has no complete '{repository}':"
            " let the pod reach the hub once, or fill the cache"
        ) from error
    except httpx2.HTTPError as error:
        raise ModelSourceUnreachable(
            f"the hub did not answer about '{repository}' ({type(error).__name__}): the pod tries again by itself"
        ) from error


def _of_answer(repository: str, error: HfHubHTTPError) -> Exception:
    status = error.response.status_code
    if status in (401, 403) or isinstance(error, GatedRepoError):
        return ModelAccessDenied(
            f"the hub refused '{repository}' with {status}: it does not exist, or is private or gated: set"
            " spec.model.source.huggingFace.tokenSecretRef to a token that may read it"
        )
    if status == 404 or isinstance(error, RepositoryNotFoundError):
        return ModelNotFound(
            f"the hub has no such repository, revision or file of '{repository}': correct"
            " spec.model.source.huggingFace"
        )
    return ModelSourceUnreachable(
        f"the hub answered {status} about '{repository}': the pod tries again by itself"
    )
