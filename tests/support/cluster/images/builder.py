"""Image builders: Docker where its daemon answers, else buildah with its storage in the cache."""

import json
import os
import shutil
import subprocess
from pathlib import Path
from typing import Protocol

from tests.support.cluster.commands import Word, build, output, streamed
from tests.support.cluster.images.saved import into_layout, unpack, unpack_layers
from tests.support.cluster.places import Places

SOURCE_LAYERS = 3
"""The Dockerfiles' last layers, small and often new: two copies and their compilation."""


class Builder(Protocol):
    """Builds an image from a Dockerfile and hands it over in an OCI layout."""

    keeps_packages: bool
    """Whether a layer that was built from a mounted folder is reused when the folder's files are gone."""

    def build(self, image: str, dockerfile: Path, context: Path, base: str | None) -> None:
        """Build a context under a name."""

    def has(self, image: str) -> bool:
        """Whether an image of this name is there."""

    def export(self, image: str, layout: Path) -> None:
        """Write an image into a folder in the OCI image layout."""

    def forget(self, image: str) -> None:
        """Remove an older build's name, and its layers where nothing else uses them."""


class Buildah:
    """buildah without a daemon, isolated by chroot; nothing is stored outside the cache."""

    keeps_packages = True

    def __init__(self, places: Places) -> None:
        self._log = places.images / "buildah.log"
        storage = places.images / "storage"
        self._argv = [
            "buildah",
            "--root",
            str(storage),
            "--runroot",
            str(places.images / "runroot"),
        ]

    def build(self, image: str, dockerfile: Path, context: Path, base: str | None) -> None:
        """Build with the layers of earlier builds."""
        argv = [
            *self._argv,
            "build",
            "--isolation",
            "chroot",
            "--layers",
            "--pull-never",
            "--format",
            "oci",
        ]
        based = ["--build-arg", f"BASE={base}"] if base else []
        build(
            f"buildah: {image}", [*argv, *based, "-t", image, "-f", dockerfile, context], self._log
        )

    def has(self, image: str) -> bool:
        """Whether the storage has it."""
        return not subprocess.run(
            [*self._argv, "inspect", "-t", "image", image], capture_output=True, check=False
        ).returncode

    def export(self, image: str, layout: Path) -> None:
        """Write only the layers that the layout lacks.

        buildah compresses what it writes into a layout, but takes a layer that is there by its uncompressed
        digest; so the large ones are put there first, as a stream of buildah's that is not compressed.
        """
        blobs = layout / "blobs" / "sha256"
        layers = self._layers(image)
        missing = {layer for layer in layers if not (blobs / layer).exists()}
        if missing & set(layers[:-SOURCE_LAYERS]):
            blobs.mkdir(parents=True, exist_ok=True)
            argv = [*self._argv, "push", "--quiet", image, f"docker-archive:/dev/stdout:{image}"]
            with streamed(f"buildah: layers of {image}", argv, self._log) as archive:
                unpack_layers(archive, missing, blobs)
        build(
            f"buildah: export of {image}",
            [*self._argv, "push", image, f"oci:{layout}:{image}"],
            self._log,
        )

    def _layers(self, image: str) -> list[str]:
        described = json.loads(output([*self._argv, "inspect", "--type", "image", image]))
        digests: list[str] = described["OCIv1"]["rootfs"]["diff_ids"]
        return [digest.removeprefix("sha256:") for digest in digests]

    def forget(self, image: str) -> None:
        """Remove an older build's name, and its layers where nothing else uses them."""
        subprocess.run([*self._argv, "rmi", image], capture_output=True, check=False)


class Docker:
    """Docker, by its client."""

    keeps_packages = False  # BuildKit's key of a layer has the content of mounted folders

    def __init__(self, places: Places) -> None:
        self._log = places.images / "docker.log"

    def build(self, image: str, dockerfile: Path, context: Path, base: str | None) -> None:
        """Build by BuildKit, which the Dockerfiles' mounts need."""
        based = ["--build-arg", f"BASE={base}"] if base else []
        argv: list[Word] = ["docker", "build", *based, "-t", image, "-f", dockerfile, context]
        build(f"docker: {image}", argv, self._log, env={"DOCKER_BUILDKIT": "1"})

    def has(self, image: str) -> bool:
        """Whether the daemon has it."""
        return not subprocess.run(
            ["docker", "image", "inspect", image], capture_output=True, check=False
        ).returncode

    def export(self, image: str, layout: Path) -> None:
        """Save the image and take its layers into the layout."""
        saved = layout.with_name(f"saved.{os.getpid()}")
        shutil.rmtree(saved, ignore_errors=True)
        saved.mkdir(parents=True)
        argv: list[Word] = ["docker", "save", image]
        try:
            with streamed(f"docker: export of {image}", argv, self._log) as archive:
                unpack(archive, saved)
            into_layout(saved, image, layout)
        finally:
            shutil.rmtree(saved)

    def forget(self, image: str) -> None:
        """Remove an older build's name."""
        subprocess.run(["docker", "image", "rm", image], capture_output=True, check=False)


def docker_answers() -> bool:
    """Whether there is a Docker daemon to build with."""
    if not shutil.which("docker"):
        return False
    return not subprocess.run(["docker", "info"], capture_output=True, check=False).returncode
