"""What the demo has to download and build before its cluster starts: time, disk and memory, checked first, then all at once."""

import os
import shutil
from collections.abc import Callable, Sequence
from concurrent.futures import CancelledError, Future, ThreadPoolExecutor
from contextlib import suppress
from dataclasses import dataclass
from pathlib import Path

from tests.support.cluster import foreign, kind, life
from tests.support.cluster.images import make, wheels
from tests.support.cluster.packages import debian, tools, virtualenv
from tests.support.cluster.places import CHECKOUT, Places

PROGRAMS = (tools.CONTAINERD_TOOL, tools.NODE, tools.HELM)
"""In the order of their builds: images reach containerd's store while Kubernetes is still compiled."""
PACKAGES = (*debian.CLUSTER_PACKAGES, *debian.IMAGE_PACKAGES)
GIGABYTE = 1e9
MEMORY_GIGABYTES = 8.0
"""Six emulated pods, Kubernetes, Prometheus, the operator and a pool that generates text take five; Go's compiler takes six."""
MEMORY_FILE = Path("/proc/meminfo")


class NotEnoughError(Exception):
    """The machine lacks disk or memory; the message contains the remedy."""


@dataclass(frozen=True, slots=True)
class Need:
    """A part that is missing: processor time of one core, and disk while it is made and after."""

    name: str
    cpu_seconds: float
    peak_gigabytes: float
    kept_gigabytes: float


ENVIRONMENT = Need("Python packages of the demo", 40, 0.4, 0.4)
GO_TOOLS = {
    "node": Need("Kubernetes, with Go", 470, 4.5, 0.15),
    "containerd": Need("containerd, with Go", 140, 0.8, 0.1),
    "helm": Need("helm, with Go", 15, 0.7, 0.06),
}
CPU_IMAGES = Need("the images, with torch for CPUs", 150, 8.0, 7.0)
CUDA_IMAGES = Need("the images, with the package index's torch for CUDA", 350, 23.0, 17.5)


def needs(places: Places) -> list[Need]:
    """Return what is missing on this machine; a user's cluster needs neither images nor Kubernetes, kind's needs images."""
    theirs = _theirs()
    wanted = [] if theirs else list(PROGRAMS)
    if theirs and not shutil.which("helm"):
        wanted = [tools.HELM]
    missing = [GO_TOOLS[tool.name] for tool in tools.absent(places, wanted)] if wanted else []
    if not virtualenv.has_demo():
        missing.append(ENVIRONMENT)
    if kind.chosen():
        unbuilt = kind.unbuilt()
        for_cpus = unbuilt and wheels.cpu_index_answers()
    else:
        unbuilt = not theirs and bool(make.unbuilt(places))
        for_cpus = unbuilt and bool(wheels.cpu_torch())
    if unbuilt:
        missing.append(CPU_IMAGES if for_cpus else CUDA_IMAGES)
    return missing


def _theirs() -> bool:
    return foreign.chosen_context() is not None or kind.chosen()


def seconds(missing: Sequence[Need], cores: int | None = None) -> float:
    """Return the time to make what is missing, for work that keeps all cores busy."""
    return sum(need.cpu_seconds for need in missing) / (cores or os.cpu_count() or 1)


def check(places: Places, missing: Sequence[Need]) -> None:
    """Check disk and memory.

    Raises:
        NotEnoughError: with what is there, what is needed, and the remedy.
    """
    wanted = peak_gigabytes(missing)
    places.cache.mkdir(parents=True, exist_ok=True)
    for folder in {places.cache, CHECKOUT}:
        free = shutil.disk_usage(folder).free / GIGABYTE
        if free < wanted:
            raise NotEnoughError(
                f"{folder} has {free:.0f} GB free and {wanted:.0f} GB are needed: free some, or set PENSTOCK_CACHE to"
                " a folder of a larger disk"
            )
    memory = available_memory_gigabytes()
    if memory is not None and memory < MEMORY_GIGABYTES:
        raise NotEnoughError(
            f"{memory:.0f} GB of memory are available and {MEMORY_GIGABYTES:.0f} GB are needed: end other programs,"
            " or set KUBE_CONTEXT to a cluster on other machines"
        )


def peak_gigabytes(missing: Sequence[Need]) -> float:
    """Return the most disk in use while all is made, with a gigabyte for the cluster's own files."""
    return 1.0 + sum(need.peak_gigabytes for need in missing)


def kept_gigabytes(missing: Sequence[Need]) -> float:
    """Return the disk that stays in use."""
    return sum(need.kept_gigabytes for need in missing)


def available_memory_gigabytes(file: Path = MEMORY_FILE) -> float | None:
    """Return the memory that programs can get, or None where the kernel does not say."""
    lines = file.read_text().splitlines() if file.exists() else []
    for line in lines:
        if line.startswith("MemAvailable:"):
            return float(line.split()[1]) * 1024 / GIGABYTE
    return None


def prepare(places: Places) -> None:
    """Download and build what is missing: programs, images and Python packages at the same time.

    Raises:
        CommandFailedError, MissingRightsError: a part could not be made; the message ends its log.
    """
    if _theirs():
        virtualenv.make_demo_environment(places)
        if not shutil.which("helm"):
            tools.build_tool(places, tools.HELM)
        return
    debian.require_root()
    debian.install(places, PACKAGES)
    containerd: Future[Path] = Future()
    parts: list[Callable[[], None]] = [
        lambda: _build_programs(places, containerd),
        lambda: _bring_images(places, containerd),
        lambda: virtualenv.make_demo_environment(places),
    ]
    with ThreadPoolExecutor(max_workers=len(parts)) as pool:
        for future in [pool.submit(part) for part in parts]:
            future.result()


def _build_programs(places: Places, containerd: "Future[Path]") -> None:
    """Build the Go programs, and resolve `containerd` as soon as its folder is there."""
    try:
        for tool, folder in zip(PROGRAMS, tools.build_each(places, PROGRAMS), strict=True):
            if tool is tools.CONTAINERD_TOOL:
                containerd.set_result(folder)
    finally:
        containerd.cancel()


def _bring_images(places: Places, containerd: "Future[Path]") -> None:
    if make.unbuilt(places):
        make.build_images(places)
        with suppress(CancelledError), life.image_store(places, containerd.result()):
            make.make_images(places)
