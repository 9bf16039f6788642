"""Container images written by hand: an OCI archive out of files, the same bytes for the same content."""

import contextlib
import hashlib
import io
import json
import tarfile
from collections.abc import Iterable, Mapping
from pathlib import Path
from typing import IO, Any

OCI = "application/vnd.oci.image"
NAME_ANNOTATION = "io.containerd.image.name"


def layer(files: Mapping[str, bytes], links: Mapping[str, str]) -> bytes:
    """Return an uncompressed layer of executable files and symbolic links."""
    buffer = io.BytesIO()
    with tarfile.open(fileobj=buffer, mode="w") as tar:
        for name, content in sorted(files.items()):
            entry = tarfile.TarInfo(name)
            entry.size, entry.mode = len(content), 0o755
            tar.addfile(entry, io.BytesIO(content))
        for name, target in sorted(links.items()):
            entry = tarfile.TarInfo(name)
            entry.type, entry.linkname = tarfile.SYMTYPE, target
            tar.addfile(entry)
    return buffer.getvalue()


def write_image(path: Path, name: str, content: bytes, config: Mapping[str, Any]) -> None:
    """Write a one-layer image as an OCI archive that containerd imports under `name`."""
    blobs: dict[str, bytes] = {}

    def descriptor(kind: str, blob: bytes) -> dict[str, Any]:
        digest = hashlib.sha256(blob).hexdigest()
        blobs[digest] = blob
        return {"mediaType": f"{OCI}.{kind}", "digest": f"sha256:{digest}", "size": len(blob)}

    layers = [descriptor("layer.v1.tar", content)]
    rootfs = {"type": "layers", "diff_ids": [item["digest"] for item in layers]}
    image = {"architecture": "amd64", "os": "linux", "config": dict(config), "rootfs": rootfs}
    manifest = {
        "schemaVersion": 2,
        "mediaType": f"{OCI}.manifest.v1+json",
        "config": descriptor("config.v1+json", json.dumps(image).encode()),
        "layers": layers,
    }
    top = descriptor("manifest.v1+json", json.dumps(manifest).encode())
    write_archive(path, {**top, "annotations": {NAME_ANNOTATION: name}}, blobs.items())


def write_archive(
    target: Path | IO[bytes],
    manifest: Mapping[str, Any],
    blobs: Iterable[tuple[str, bytes]] | Iterable[tuple[str, Path]],
) -> None:
    """Write an OCI archive, to a file or a stream: one manifest and the blobs given by digest (hexadecimal)."""
    index = {"schemaVersion": 2, "manifests": [dict(manifest)]}
    with contextlib.ExitStack() as stack:
        stream = stack.enter_context(target.open("wb")) if isinstance(target, Path) else target
        tar = stack.enter_context(tarfile.open(fileobj=stream, mode="w|"))
        _add(tar, "oci-layout", b'{"imageLayoutVersion":"1.0.0"}')
        _add(tar, "index.json", json.dumps(index).encode())
        for digest, blob in blobs:
            name = f"blobs/sha256/{digest}"
            if isinstance(blob, Path):
                tar.add(blob, arcname=name)
            else:
                _add(tar, name, blob)


def _add(tar: tarfile.TarFile, name: str, content: bytes) -> None:
    entry = tarfile.TarInfo(name)
    entry.size = len(content)
    tar.addfile(entry, io.BytesIO(content))
