"""Converts the output of `docker save`, which buildah writes too, into an OCI image layout."""

import hashlib
import json
import os
import shutil
import tarfile
from collections.abc import Set
from pathlib import Path
from typing import IO, Any

from tests.support.cluster.images.load import REFERENCE

MANIFEST = "application/vnd.oci.image.manifest.v1+json"
CONFIG = "application/vnd.oci.image.config.v1+json"
LAYER = "application/vnd.oci.image.layer.v1.tar"
GZIP_MAGIC = b"\x1f\x8b"
COPY_BYTES = 2**20


def into_layout(saved: Path, image: str, layout: Path) -> None:
    """Put the one image of an unpacked archive into a layout, in the place of an older one of that name.

    `manifest.json` is read, which every Docker writes: one before 25 writes nothing else, and later ones name
    an image in their `index.json` by its tag alone. Files are linked, not copied.

    Source: https://github.com/opencontainers/image-spec/blob/v1.1.0/image-layout.md
    """
    (layout / "blobs" / "sha256").mkdir(parents=True, exist_ok=True)
    described = json.loads((saved / "manifest.json").read_text())[0]
    manifest = {
        "schemaVersion": 2,
        "mediaType": MANIFEST,
        "config": _moved(saved / described["Config"], layout, CONFIG),
        "layers": [_layer(saved / name, layout) for name in described["Layers"]],
    }
    written = saved / "manifest.oci.json"
    written.write_text(json.dumps(manifest))
    entry = {**_moved(written, layout, MANIFEST), "annotations": {REFERENCE: image}}
    _name(layout, image, entry)


def unpack_layers(archive: IO[bytes], wanted: Set[str], blobs: Path) -> None:
    """Write the wanted layers of an archive, which names them `<digest>.tar`, into a folder as it is read."""
    with tarfile.open(fileobj=archive, mode="r|") as entries:
        for entry in entries:
            digest = entry.name.removesuffix(".tar")
            content = entries.extractfile(entry) if digest in wanted else None
            if content is not None:
                unfinished = blobs / f".{digest}.{os.getpid()}"
                with unfinished.open("wb") as file:
                    shutil.copyfileobj(content, file, COPY_BYTES)
                unfinished.replace(blobs / digest)


def unpack(archive: IO[bytes], folder: Path) -> None:
    """Unpack an archive as it is read, so that it is never on the disk as well."""
    with tarfile.open(fileobj=archive, mode="r|") as entries:
        entries.extractall(folder, filter="data")


def _layer(file: Path, layout: Path) -> dict[str, Any]:
    with file.open("rb") as opened:
        packed = opened.read(2) == GZIP_MAGIC
    return _moved(file, layout, f"{LAYER}+gzip" if packed else LAYER)


def _moved(file: Path, layout: Path, media_type: str) -> dict[str, Any]:
    """Link a file into the layout under its digest; return its descriptor."""
    real = file.resolve()
    with real.open("rb") as opened:
        digest = hashlib.file_digest(opened, "sha256").hexdigest()
    blob = layout / "blobs" / "sha256" / digest
    if not blob.exists():
        os.link(real, blob)
    return {"mediaType": media_type, "digest": f"sha256:{digest}", "size": blob.stat().st_size}


def _name(layout: Path, image: str, entry: dict[str, Any]) -> None:
    (layout / "oci-layout").write_text(json.dumps({"imageLayoutVersion": "1.0.0"}))
    index = layout / "index.json"
    entries = json.loads(index.read_text())["manifests"] if index.exists() else []
    others = [item for item in entries if item.get("annotations", {}).get(REFERENCE) != image]
    index.write_text(json.dumps({"schemaVersion": 2, "manifests": [*others, entry]}))
