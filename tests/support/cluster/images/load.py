"""Bringing a built image to the node: only the layers that containerd lacks travel."""

import json
import subprocess
from pathlib import Path
from typing import Any

from tests.support.cluster.commands import CommandFailedError
from tests.support.cluster.host import sandbox
from tests.support.cluster.packages import archive
from tests.support.cluster.places import Places
from tests.support.cluster.progress import say

DIGEST = "sha256:"
LARGE_BYTES = 2**20
REFERENCE = "org.opencontainers.image.ref.name"


def images_on_node(places: Places) -> set[str]:
    """Return the names of the images that containerd holds."""
    return set(sandbox.ctr(places, places.commands, "images", "ls", "-q").split())


def load(places: Places, layout: Path, image: str) -> None:
    """Import an image of an OCI layout into containerd under its name."""
    descriptor = _descriptor(layout, image)
    present_blobs = set(sandbox.ctr(places, places.commands, "content", "ls", "-q").split())
    wanted = blobs_of(layout, descriptor)
    missing = [digest for digest in wanted if f"sha256:{digest}" not in present_blobs]
    size = sum(_blob(layout, digest).stat().st_size for digest in missing)
    say(
        f"containerd: {image}: {len(missing)} of {len(wanted)} blobs are new, {size / 2**20:.0f} MiB"
    )
    named = {**descriptor, "annotations": {archive.NAME_ANNOTATION: image}}
    _import(places, named, {digest: _blob(layout, digest) for digest in missing})


def hollow(layout: Path) -> None:
    """Free the disk of large layers, which containerd has by now.

    The files stay with their size, so the builder does not write these layers again for the next image.
    """
    for blob in _blobs(layout):
        size = blob.stat().st_size
        if size >= LARGE_BYTES and not is_hollow(blob):
            with blob.open("r+b") as file:
                file.truncate(0)
                file.truncate(size)


def drop_hollow(places: Places, layout: Path) -> None:
    """Remove hollow layers that containerd no longer has, so that the builder writes them again."""
    present_blobs = set(sandbox.ctr(places, places.commands, "content", "ls", "-q").split())
    for blob in _blobs(layout):
        if is_hollow(blob) and f"{DIGEST}{blob.name}" not in present_blobs:
            blob.unlink()


def is_hollow(blob: Path) -> bool:
    """Return whether a large file has a size and no content."""
    status = blob.stat()
    return status.st_size >= LARGE_BYTES and status.st_blocks == 0


def tag(places: Places, image: str, other: str) -> None:
    """Give an image of the node a second name, taken from whatever had it."""
    sandbox.ctr(places, places.commands, "images", "tag", "--force", image, other)


def remove(places: Places, images: list[str]) -> None:
    """Remove names from the node; layers that nothing uses go with them."""
    if images:
        sandbox.ctr(places, places.commands, "images", "rm", *images)


def remove_nameless(places: Places) -> None:
    """Remove what is known by its digest alone: the kubelet's side keeps such an entry of each image it saw."""
    listed = sandbox.ctr(places, places.commands, "images", "ls").splitlines()[1:]
    remove(places, nameless([line.split()[:3] for line in listed]))


def nameless(rows: list[list[str]]) -> list[str]:
    """Return the references by digest, of rows (reference, type, target), whose target no name has."""
    named = {target for reference, _, target in rows if not reference.startswith(DIGEST)}
    return [row[0] for row in rows if row[0].startswith(DIGEST) and row[2] not in named]


def blobs_of(layout: Path, descriptor: dict[str, Any]) -> list[str]:
    """Return the digests (hexadecimal) of an image's manifest, configuration and layers."""
    manifest = json.loads(_blob(layout, _hex(descriptor)).read_text())
    return [_hex(item) for item in (descriptor, manifest["config"], *manifest["layers"])]


def keep_only(layout: Path, images: set[str]) -> None:
    """Drop from a layout the images not named, and the blobs that none of the others uses."""
    file = layout / "index.json"
    index = json.loads(file.read_text())
    kept = [
        item for item in index["manifests"] if item.get("annotations", {}).get(REFERENCE) in images
    ]
    file.write_text(json.dumps({**index, "manifests": kept}))
    used = {digest for item in kept for digest in blobs_of(layout, item)}
    for blob in _blobs(layout):
        if blob.name not in used:
            blob.unlink()


def _import(places: Places, descriptor: dict[str, Any], blobs: dict[str, Path]) -> None:
    argv = sandbox.ctr_argv(places, places.commands, "images", "import", "-")
    with subprocess.Popen(
        argv, stdin=subprocess.PIPE, stdout=subprocess.DEVNULL, stderr=subprocess.PIPE
    ) as client:
        if client.stdin is None or client.stderr is None:
            raise CommandFailedError("ctr: no pipe")
        try:
            archive.write_archive(client.stdin, descriptor, blobs.items())
        except BrokenPipeError:
            say("containerd: closed the stream early")
        client.stdin.close()
        words = client.stderr.read().decode()
    if client.returncode:
        raise CommandFailedError(f"ctr images import: {words.strip()[-2000:]}")


def _descriptor(layout: Path, image: str) -> dict[str, Any]:
    manifests: list[dict[str, Any]] = json.loads((layout / "index.json").read_text())["manifests"]
    named = [item for item in manifests if item.get("annotations", {}).get(REFERENCE) == image]
    return (named or manifests)[0]


def _blobs(layout: Path) -> list[Path]:
    folder = layout / "blobs" / "sha256"
    return list(folder.iterdir()) if folder.exists() else []


def _blob(layout: Path, digest: str) -> Path:
    return layout / "blobs" / "sha256" / digest


def _hex(descriptor: dict[str, Any]) -> str:
    return str(descriptor["digest"]).removeprefix("sha256:")
