"""Debian packages that the cluster and its images are made from."""

import os
import subprocess
import time
from pathlib import Path

from tests.support.cluster.commands import CommandFailedError, build, output
from tests.support.cluster.places import Places
from tests.support.cluster.progress import say

CLUSTER_PACKAGES = (
    "openssl", "iproute2", "iptables", "conntrack", "mount", "kmod",
    "runc", "containernetworking-plugins", "busybox-static",
)  # fmt: skip
IMAGE_PACKAGES = ("buildah", "debootstrap", "ca-certificates", "python3-venv")

NONINTERACTIVE = {"DEBIAN_FRONTEND": "noninteractive"}
LOCK_SECONDS = 300
"""Time to wait for another apt-get: a fresh machine may be upgrading itself."""


class MissingRightsError(Exception):
    """Something needs root and we are not."""


def require_root() -> None:
    """Refuse early what would fail late.

    Raises:
        MissingRightsError: we are not root.
    """
    if os.geteuid() != 0:
        raise MissingRightsError(
            "the test cluster mounts, routes and starts containers: run it as root, or set KUBE_CONTEXT"
        )


def missing(packages: tuple[str, ...]) -> list[str]:
    """Return the packages that are not installed."""
    listed = subprocess.run(
        ["dpkg-query", "-W", "-f", "${Package} ${db:Status-Abbrev}\n", *packages],
        capture_output=True, text=True, check=False,
    ).stdout  # fmt: skip
    installed = {line.split()[0] for line in listed.splitlines() if line.split()[1:2] == ["ii"]}
    return [name for name in packages if name not in installed]


def install(places: Places, packages: tuple[str, ...]) -> None:
    """Install the missing packages; without any, nothing is downloaded.

    Raises:
        CommandFailedError: apt's last words.
    """
    absent = missing(packages)
    if not absent:
        return
    say(f"apt: to install: {' '.join(absent)}")
    update(places)
    _apt_get(places, "install", "-y", "--no-install-recommends", *absent)


def update(places: Places) -> None:
    """Refresh the lists of packages."""
    _apt_get(places, "update")


def _apt_get(places: Places, command: str, *words: str) -> None:
    """Run apt-get; DPkg::Lock::Timeout does not cover the lock of `update`, which is retried here."""
    argv = ["apt-get", "-q", "-o", f"DPkg::Lock::Timeout={LOCK_SECONDS}", command, *words]
    deadline = time.monotonic() + LOCK_SECONDS
    while True:
        try:
            build(f"apt: {command}", argv, places.tools / "apt.log", env=NONINTERACTIVE)
        except CommandFailedError as error:
            if "Could not get lock" not in str(error) or time.monotonic() > deadline:
                raise
            say("apt: another apt-get is running: waiting for its lock")
            time.sleep(5)
        else:
            return


def mirror(package: str = "base-files") -> str:
    """Return the mirror that this machine's own packages come from."""
    for line in output(["apt-cache", "policy", package]).splitlines():
        words = line.split()
        if len(words) > 1 and words[1].startswith("http"):
            return words[1]
    return "http://deb.debian.org/debian"


def busybox() -> bytes:
    """Return Debian's statically linked busybox."""
    return Path("/bin/busybox").read_bytes()
