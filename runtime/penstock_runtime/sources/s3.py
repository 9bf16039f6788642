"""Download of a folder of an S3 bucket by `s3fs` (fsspec), into a cache of contents and snapshots.

Contents are named by key and ETag. A snapshot is a folder of links named by the hash of all contents, so a rewritten
object creates a new snapshot and leaves the old one complete. `refs/` records the last snapshot of each path, which is
used when the store is unreachable.
"""

import hashlib
import re
from collections.abc import Iterator, Mapping
from contextlib import contextmanager
from dataclasses import dataclass
from pathlib import Path, PurePosixPath
from typing import Any

import aiohttp
import botocore.session
from botocore.exceptions import BotoCoreError, NoCredentialsError
from s3fs import S3FileSystem
from typing_extensions import override

from penstock_api.types.sources import S3Source
from penstock_runtime.sources.cache import Cache, record, sync_folder
from penstock_runtime.sources.downloads import Digest, ModelStore, Remote, RemoteFile, Sink
from penstock_runtime.sources.errors import (
    ModelAccessDenied,
    ModelCorrupt,
    ModelNotFound,
    ModelSourceUnreachable,
)
from penstock_runtime.sources.program_files import program_files
from penstock_runtime.sources.progress import DownloadProgress

PART_BYTES = 8 * 2**20
CONCURRENT_PARTS = 4
CONNECT_SECONDS = 5
READ_SECONDS = 30
_HEX = re.compile(r"[0-9a-f]{32}\Z")
"""An MD5 hash, or a name by `_short`."""


@dataclass(frozen=True, slots=True)
class S3Folder(Remote):
    """A folder of a bucket."""

    files: S3FileSystem
    root: str
    """Bucket and prefix."""
    label: str
    """Name of the bucket in messages."""

    def list(self, path: str) -> list[RemoteFile]:
        """Return the objects at `path` below the root. Raises `ModelLoadFailed`."""
        files = [
            _file(self.root, key, info)
            for name in program_files(path) or (path,)
            for key, info in self._found(name).items()
            if not key.endswith("/")
        ]
        if not files:
            raise ModelNotFound(
                f"{self.label} has no objects at '{path}': correct spec.model.source.s3"
            )
        return files

    def _found(self, path: str) -> Mapping[str, Any]:
        with _store_errors(self.label):
            objects: Mapping[str, Any] = self.files.find(
                str(PurePosixPath(self.root) / path), detail=True
            )
            return objects

    @override
    def append(self, file: RemoteFile, out: Sink, offset: int) -> None:
        key = f"{self.root}/{file.path}"
        while offset < file.size:
            starts = list(range(offset, file.size, PART_BYTES))[:CONCURRENT_PARTS]
            ends = [min(start + PART_BYTES, file.size) for start in starts]
            with _store_errors(self.label):
                parts = self.files.cat_ranges([key] * len(starts), starts, ends, on_error="raise")
            for part in parts:
                out.write(part)
            if sum(map(len, parts)) != ends[-1] - offset:
                raise ModelCorrupt(
                    f"{self.label}: '{file.path}' changed while it was read: try again"
                )
            offset = ends[-1]

    @override
    def is_current(self, file: RemoteFile) -> bool:
        # an ETag is not an MD5 hash if the object is encrypted with a KMS or customer key
        bucket, _, key = f"{self.root}/{file.path}".partition("/")
        with _store_errors(self.label):
            head = self.files.call_s3("head_object", Bucket=bucket, Key=key)
        has_hash = file.digest is not None and (
            head.get("ServerSideEncryption") in (None, "AES256")
            and "SSECustomerAlgorithm" not in head
        )
        return not has_hash and _blob(f"{bucket}/{key}", head["ETag"]) == file.blob


def fetch(source: S3Source, cache: Cache, meter: DownloadProgress) -> Path:
    """Return the folder of the complete snapshot. Raises `ModelLoadFailed`."""
    root = str(PurePosixPath(source.bucket) / (source.prefix or ".").strip("/"))
    label, path = f"bucket '{source.bucket}'", (source.path or ".").strip("/")
    place = f"s3--{source.bucket}--{_short(source.endpoint or 'aws', root)}"
    folder = cache.folder / place
    ref = folder / "refs" / _short(path)
    with cache.locked(place, meter):
        try:
            bucket = S3Folder(_file_system(source), root, label)
            files = bucket.list(path)
        except ModelSourceUnreachable:
            cached = _last_snapshot(folder, ref)
            if cached is None:
                raise
            return cached
        meter.begin(sum(file.size for file in files))
        ModelStore(cache, folder / "blobs", meter).fetch(bucket, files)
        snapshot = _snapshot(folder, files)
        record(ref, snapshot.name)
        return snapshot


def _snapshot(folder: Path, files: list[RemoteFile]) -> Path:
    """Create a folder of links from file names to contents, which are on the disk when it returns."""
    contents = sorted(f"{file.path}\n{file.blob}" for file in files)
    snapshot = folder / "snapshots" / _short(*contents)
    for file in files:
        link = snapshot / file.path
        link.parent.mkdir(parents=True, exist_ok=True)
        if not link.is_symlink():
            up = "../" * len(PurePosixPath(file.path).parts)
            link.symlink_to(f"{up}../blobs/{file.blob}")
    parents = {parent for file in files for parent in (snapshot / file.path).parents}
    for parent in parents:
        if parent.is_relative_to(folder):
            sync_folder(parent)
    return snapshot


def _last_snapshot(folder: Path, ref: Path) -> Path | None:
    """Return the last complete snapshot, which `refs` records."""
    if not ref.is_file() or not _HEX.match(
        name := ref.read_text(encoding="utf-8", errors="replace")
    ):
        return None
    snapshot = folder / "snapshots" / name
    return snapshot if snapshot.is_dir() else None


def _file(root: str, key: str, info: Mapping[str, Any]) -> RemoteFile:
    etag = str(info["ETag"]).strip('"')
    path = key.removeprefix(root).strip("/")
    digest = Digest("md5", etag) if _HEX.match(etag) else None
    return RemoteFile(path, int(info["size"]), _blob(key, etag), digest)


def _blob(key: str, etag: str) -> str:
    return _short(key, etag.strip('"'))


def _file_system(source: S3Source) -> S3FileSystem:
    """Return the object store; without credentials access is anonymous, which public buckets allow."""
    credentials = botocore.session.get_session().get_credentials()
    style = {"s3": {"addressing_style": "path"}} if source.endpoint else {}
    timeouts = {"connect_timeout": CONNECT_SECONDS, "read_timeout": READ_SECONDS}
    return S3FileSystem(
        anon=credentials is None,
        endpoint_url=source.endpoint,
        config_kwargs={**timeouts, "retries": {"max_attempts": 2, "mode": "standard"}, **style},
        use_listings_cache=False,
        skip_instance_cache=True,
    )


@contextmanager
def _store_errors(label: str) -> Iterator[None]:
    """Convert the library's errors to reasons: OSErrors for answers, botocore's for timeouts."""
    try:
        yield
    except (PermissionError, NoCredentialsError) as error:
        raise ModelAccessDenied(
            f"{label} rejected the pod's credentials: set spec.model.source.s3.credentialsSecretRef to credentials"
            " that may list and read it"
        ) from error
    except FileNotFoundError as error:
        raise ModelNotFound(
            f"there is no {label}, or no such object in it: correct spec.model.source.s3"
        ) from error
    except (BotoCoreError, aiohttp.ClientError, TimeoutError, OSError) as error:
        raise ModelSourceUnreachable(
            f"the object store did not respond correctly for {label} ({type(error).__name__}): the pod retries"
        ) from error


def _short(*parts: str) -> str:
    return hashlib.sha256("\n".join(parts).encode()).hexdigest()[:32]
