"""The base image: Debian with Python 3.11, made on the machine, since no registry need be reachable."""

import hashlib
import os
import shutil
from pathlib import Path

from tests.support.cluster import debian
from tests.support.cluster.commands import Word, build, output
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
PROMETHEUS_PROGRAM = "usr/bin/prometheus"
PROMTOOL_PROGRAM = "usr/bin/promtool"


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


def prometheus_program(places: Places) -> Path:
    """Return Debian's Prometheus, taken out of its package; nothing is installed on the machine."""
    folder = places.images / "prometheus"
    program = folder / PROMETHEUS_PROGRAM
    if not program.exists():
        unfinished = folder.with_name(f"prometheus.{os.getpid()}")
        unfinished.mkdir(parents=True)
        build(
            "apt: prometheus",
            ["apt-get", "download", "prometheus"],
            places.images / "prometheus.log",
            cwd=unfinished,
        )
        (package,) = unfinished.glob("prometheus_*.deb")
        output(["dpkg-deb", "-x", package, unfinished])
        shutil.rmtree(folder, ignore_errors=True)
        unfinished.rename(folder)
    return program


def link_prometheus(places: Places) -> None:
    """Put Debian's prometheus and promtool among the commands, from the same package."""
    package = prometheus_program(places).parents[2]
    places.commands.mkdir(parents=True, exist_ok=True)
    for program in PROMETHEUS_PROGRAM, PROMTOOL_PROGRAM:
        name = Path(program).name
        unfinished = places.commands / f".{name}.{os.getpid()}"
        unfinished.unlink(missing_ok=True)
        unfinished.symlink_to(package / program)
        unfinished.replace(places.commands / name)
