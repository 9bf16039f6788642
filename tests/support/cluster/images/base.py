"""The base image: Debian with Python 3.11, made on the machine, since no registry need be reachable."""

import hashlib
import os
import shutil
from pathlib import Path

from tests.support.cluster.commands import Word, build, output
from tests.support.cluster.packages import debian
from tests.support.cluster.places import Places

SUITE = "bookworm"
PACKAGES = ("ca-certificates", "python3", "python3-venv")
NEEDLESS = (
    "var/cache/apt/archives",
    "var/lib/apt/lists",
    "usr/share/doc",
    "usr/share/locale",
    "usr/share/man",
)
"""Folders emptied in the base: nothing reads them in a container."""


def base_hash() -> str:
    """Return the hash of the base's making."""
    return hashlib.sha256(repr((SUITE, PACKAGES, NEEDLESS)).encode()).hexdigest()[:12]


def base_archive(places: Places) -> Path:
    """Return a tar of the base's root file system, made by debootstrap unless it is cached."""
    folder = places.images / "base"
    archive = folder / f"{base_hash()}.tar"
    if archive.exists():
        return archive
    root = folder / f"root.{os.getpid()}"
    folder.mkdir(parents=True, exist_ok=True)
    include = f"--include={','.join(PACKAGES)}"
    argv: list[Word] = ["debootstrap", "--variant=minbase", include, SUITE, root, debian.mirror()]
    try:
        build("debootstrap: the base image", argv, places.images / "base.log")
        for needless in NEEDLESS:
            shutil.rmtree(root / needless, ignore_errors=True)
            (root / needless).mkdir(parents=True)
        unfinished = archive.with_suffix(f".{os.getpid()}")
        output(
            ["tar", "-C", root, "--numeric-owner", "--exclude=./dev/*", "-cf", unfinished, "."],
            timeout_seconds=300,
        )
        unfinished.rename(archive)
    finally:
        shutil.rmtree(root, ignore_errors=True)
    return archive
