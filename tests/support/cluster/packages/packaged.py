"""Programs out of Debian's packages, unpacked into the cache: nothing is installed on the machine."""

import os
import re
import shlex
import shutil
from pathlib import Path

from tests.support.cluster.commands import CommandFailedError, build, output
from tests.support.cluster.locks import locked
from tests.support.cluster.packages import debian
from tests.support.cluster.places import Places

PROMETHEUS_PROGRAM = "usr/bin/prometheus"
PROMTOOL_PROGRAM = "usr/bin/promtool"
REDIS_PACKAGE = "redis-tools"
REDIS_SERVER = "usr/bin/redis-server"
REDIS_BINARY = "usr/bin/redis-check-rdb"
"""The server's binary, which is the server under every other name."""
LIBRARY = re.compile(r"(?:lib|lua)[a-z0-9.+-]+")


def prometheus_program(places: Places) -> Path:
    """Return Debian's Prometheus."""
    return _unpacked(places, places.images / "prometheus", "prometheus") / PROMETHEUS_PROGRAM


def link_prometheus(places: Places) -> None:
    """Put Debian's prometheus and promtool among the commands, from the same package."""
    package = prometheus_program(places).parents[2]
    for program in PROMETHEUS_PROGRAM, PROMTOOL_PROGRAM:
        unfinished = _unfinished(places, Path(program).name)
        unfinished.symlink_to(package / program)
        unfinished.replace(places.commands / Path(program).name)


def link_redis(places: Places) -> None:
    """Put Debian's redis-server among the commands, with the libraries that the machine lacks."""
    folder = _unpacked(places, places.tools / "redis", REDIS_PACKAGE)
    server = folder / REDIS_SERVER
    if not server.is_symlink():
        server.symlink_to(folder / REDIS_BINARY)
    libraries = sorted({str(file.parent) for file in folder.rglob("*.so.*")})
    script = _unfinished(places, server.name)
    script.write_text(
        "#!/bin/sh\n"
        f"export LD_LIBRARY_PATH={shlex.quote(':'.join(libraries))}\n"
        f'exec {shlex.quote(str(server))} "$@"\n'
    )
    script.chmod(0o755)
    script.replace(places.commands / server.name)


def libraries_of(depends: str) -> tuple[str, ...]:
    """Return the packages of libraries that a `Depends` field names; of alternatives the first."""
    clauses = (clause.split("|")[0].split() for clause in depends.split(","))
    first = [words[0].partition(":")[0] for words in clauses if words]
    return tuple(name for name in first if LIBRARY.fullmatch(name))


def _unpacked(places: Places, folder: Path, package: str) -> Path:
    """Return the folder with a package and the libraries that it needs and the machine lacks."""
    with locked(places, "packages"):
        if not folder.exists():
            unfinished = folder.with_name(f"{folder.name}.unfinished")
            shutil.rmtree(unfinished, ignore_errors=True)
            unfinished.mkdir(parents=True)
            depends = output(["dpkg-deb", "-f", _unpack(places, unfinished, package), "Depends"])
            for library in debian.missing(libraries_of(depends)):
                _unpack(places, unfinished, library)
            unfinished.rename(folder)
    return folder


def _unpack(places: Places, folder: Path, package: str) -> Path:
    """Download a package into a folder and unpack it there; return its file."""
    argv = ["apt-get", "download", package]
    log = places.tools / "apt.log"
    try:
        build(f"apt: {package}", argv, log, cwd=folder)
    except CommandFailedError:
        debian.update(places)  # a fresh machine has no lists of packages
        build(f"apt: {package}", argv, log, cwd=folder)
    (file,) = folder.glob(f"{package}_*.deb")
    output(["dpkg-deb", "-x", file, folder])
    return file


def _unfinished(places: Places, name: str) -> Path:
    """Return where a command is made before it replaces an older one."""
    places.commands.mkdir(parents=True, exist_ok=True)
    unfinished = places.commands / f".{name}.{os.getpid()}"
    unfinished.unlink(missing_ok=True)
    return unfinished
