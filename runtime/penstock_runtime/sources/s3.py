"""A folder of a bucket, by `s3fs` (fsspec), in a cache of contents and snapshots.

A content is named by key and ETag. A snapshot is a folder of links, named by all of its contents, so an object that
is written anew makes a new snapshot and leaves the old one whole. `refs/` remembers the last snapshot of a path for
the day on which the store is out of reach.
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

from penstock_api.types.sources import S3Source
from penstock_runtime.sources.cache import Cache
from penstock_runtime.sources.downloads import Digest, ModelStore, RemoteFile, Sink
from penstock_runtime.sources.errors import (
    ModelAccessDenied,
    ModelCorrupt,
    ModelNotFound,
    ModelSourceUnreachable,
)
from penstock_runtime.sources.progress import DownloadProgress

PART_BYTES = 8 * 2**20
PARTS_AT_ONCE = 4
CONNECT_SECONDS = 5
READ_SECONDS = 30
_MD5 = re.compile("^[0-9a-f]{32}$")


@dataclass(frozen=True, slots=True)
class S3Folder:
    """A folder of a bucket, as a `downloads.Remote`."""

    files: S3FileSystem
    root: str
    """Bucket and prefix."""
    told: str
    """How messages call it."""

    def list(self, path: str) -> list[RemoteFile]:
        """Return the objects at `path` below the root. Raises `ModelLoadFailed`."""
        below = str(PurePosixPath(self.root) / path)
        with _store_errors(self.told):
            found = self.files.find(below, detail=True)
        files = [_file(self.root, key, of) for key, of in found.items() if not key.endswith("/")]
        if not files:
            raise ModelNotFound(
                f"{self.told} has no objects at '{path}': correct spec.model.source.s3"
            )
        return files

    def append(self, file: RemoteFile, out: Sink, offset: int) -> None:
        """As `downloads.Remote.append`, by parts, a few at once."""
        key = f"{self.root}/{file.path}"
        while offset < file.size:
            starts = list(range(offset, file.size, PART_BYTES))[:PARTS_AT_ONCE]
            ends = [min(start + PART_BYTES, file.size) for start in starts]
            with _store_errors(self.told):
                parts = self.files.cat_ranges([key] * len(starts), starts, ends, on_error="raise")
            for part in parts:
                out.write(part)
            if sum(map(len, parts)) != ends[-1] - offset:
                raise ModelCorrupt(
                    f"{self.told}: '{file.path}' changed while it was read: try again"
                )
            offset = ends[-1]

    def vouches_for(self, file: RemoteFile) -> bool:
        """As `downloads.Remote.vouches_for`: an ETag is a hash only of what is not encrypted by a key of its own."""
        bucket, _, key = f"{self.root}/{file.path}".partition("/")
        with _store_errors(self.told):
            head = self.files.call_s3("head_object", S3Folder=bucket, Key=key)
        return (
            head.get("ServerSideEncryption") in (None, "AES256")
            and "SSECustomerAlgorithm" not in head
        )


def fetch(source: S3Source, cache: Cache, meter: DownloadProgress) -> Path:
    """Return the folder of the snapshot, all its files in the cache. Raises `ModelLoadFailed`."""
    root = str(PurePosixPath(source.bucket) / (source.prefix or ".").strip("/"))
    told, path = f"bucket '{source.bucket}'", (source.path or ".").strip("/")
    place = f"s3--{source.bucket}--{_short(source.endpoint or 'aws', root)}"
    folder = cache.folder / place
    ref = folder / "refs" / _short(path)
    with cache.held(place, meter):
        try:
            bucket = S3Folder(_file_system(source), root, told)
            files = bucket.list(path)
        except ModelSourceUnreachable:
            kept = _kept(folder, ref)
            if kept is None:
                raise
            return kept
        meter.begin(sum(file.size for file in files))
        ModelStore(cache, folder / "blobs", meter).fetch(bucket, files)
        snapshot = _snapshot(folder, files)
        ref.parent.mkdir(exist_ok=True)
        ref.write_text(snapshot.name, encoding="utf-8")
        return snapshot


def _snapshot(folder: Path, files: list[RemoteFile]) -> Path:
    """Link the contents together under their own names."""
    contents = sorted(f"{file.path}\n{file.blob}" for file in files)
    snapshot = folder / "snapshots" / _short(*contents)
    for file in files:
        link = snapshot / file.path
        link.parent.mkdir(parents=True, exist_ok=True)
        if not link.is_symlink():
            up = "../" * len(PurePosixPath(file.path).parts)
            link.symlink_to(f"{up}../blobs/{file.blob}")
    return snapshot


def _kept(folder: Path, ref: Path) -> Path | None:
    """Return the snapshot that was whole the last time; it is written to `refs` only then."""
    if not ref.is_file():
        return None
    snapshot = folder / "snapshots" / ref.read_text(encoding="utf-8")
    return snapshot if snapshot.is_dir() else None


def _file(root: str, key: str, found: Mapping[str, Any]) -> RemoteFile:
    etag = str(found["ETag"]).strip('"')
    path = key.removeprefix(root).strip("/")
    digest = Digest("md5", etag) if _MD5.match(etag) else None
    return RemoteFile(path, int(found["size"]), _short(key, etag), digest)


def _file_system(source: S3Source) -> S3FileSystem:
    """Return the store; where nobody gave the pod credentials, it asks as nobody, as public buckets allow."""
    found = botocore.session.get_session().get_credentials()
    style = {"s3": {"addressing_style": "path"}} if source.endpoint else {}
    timeouts = {"connect_timeout": CONNECT_SECONDS, "read_timeout": READ_SECONDS}
    return S3FileSystem(
        anon=found is None,
        endpoint_url=source.endpoint,
        config_kwargs={**timeouts, "retries": {"max_attempts": 2, "mode": "standard"}, **style},
        use_listings_cache=False,
        skip_instance_cache=True,
    )


@contextmanager
def _store_errors(told: str) -> Iterator[None]:
    """Turn the library's errors, which are OSErrors for answers and botocore's for silence, into reasons."""
    try:
        yield
    except (PermissionError, NoCredentialsError) as error:
        raise ModelAccessDenied(
            f"{told} refused the pod: set spec.model.source.s3.credentialsSecretRef to credentials that may"
            " list and read it"
        ) from error
    except FileNotFoundError as error:
        raise ModelNotFound(
            f"there is no {told}, or no such object in it: correct spec.model.source.s3"
        ) from error
    except (BotoCoreError, aiohttp.ClientError, TimeoutError, OSError) as error:
        raise ModelSourceUnreachable(
            f"the store of {told} did not answer as it should ({type(error).__name__}): the pod tries again by itself"
        ) from error


def _short(*parts: str) -> str:
    return hashlib.sha256("\n".join(parts).encode()).hexdigest()[:32]
