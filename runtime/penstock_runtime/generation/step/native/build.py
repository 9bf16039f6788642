"""The library of `decoder.c`, for this machine, loaded."""

import ctypes
import functools
import platform
import sys
from collections.abc import Iterable, Sequence
from pathlib import Path

from penstock_runtime import native
from penstock_runtime.native import NoNativeCode

SOURCE = Path(__file__).with_name("decoder.c")
FLAGS = ("-O3", "-ffp-contract=off", "-fno-math-errno", "-fPIC", "-fopenmp", "-c")
"""No contraction: what is fused is said in the source, so that every copy of a loop rounds alike."""
_PORTABLE = {"x86_64": "-march=x86-64-v3"}
"""What an image is built for; a machine without it does not load that library."""
_OWN = {"x86_64": "-march=native"}
_NEEDED = {"x86_64": {"avx2", "fma", "bmi2"}}


def library() -> ctypes.CDLL:
    """Return the library, loaded.

    Raises:
        NoNativeCode: in one line.
    """
    _refuse_old_processors()
    own = f"decoder-{_digest('native', _processor())}.so"
    path = native.found(built_ahead(), own, functools.partial(_commands, _OWN))
    try:
        ctypes.CDLL(_threads_of_torch(), mode=ctypes.RTLD_GLOBAL)
        return ctypes.CDLL(str(path))
    except OSError as error:
        raise NoNativeCode(f"{path} does not load: {error}") from error


def built_ahead() -> Path:
    """Return where `python -m penstock_runtime.generation.step.native.build` puts the library."""
    return SOURCE.with_name(f"decoder-{_digest('portable')}.so")


def _refuse_old_processors() -> None:
    needed = _NEEDED.get(platform.machine(), set())
    try:
        flags = set(Path("/proc/cpuinfo").read_text().split()) if needed else set()
    except OSError:
        return
    if flags and not needed <= flags:
        raise NoNativeCode(f"this processor lacks {' '.join(sorted(needed - flags))}")


def _threads_of_torch() -> str:
    """Return the OpenMP runtime that this process has loaded with torch: two would fight for the cores."""
    try:
        mapped = Path("/proc/self/maps").read_text().split()
    except OSError:
        mapped = []
    return next((word for word in mapped if "/libgomp" in word), "libgomp.so.1")


def _commands(architectures: dict[str, str], compiler: str, made: Path) -> Iterable[Sequence[str]]:
    architecture, part = architectures.get(platform.machine(), "-O3"), f"{made}.o"
    yield compiler, *FLAGS, architecture, str(SOURCE), "-o", part
    yield compiler, "-shared", part, "-o", str(made), "-lm"  # OpenMP is torch's own


def _digest(*words: str) -> str:
    sources = sorted(SOURCE.parent.glob("*.[ch]"))
    return native.digest(sources, *FLAGS, platform.machine(), *words)


def _processor() -> str:
    """What `-march=native` depends on: a home that machines share must not mix them up."""
    try:
        lines = Path("/proc/cpuinfo").read_text().splitlines()
    except OSError:
        return platform.processor()
    return next((line for line in lines if line.startswith(("flags", "Features"))), "")


if __name__ == "__main__":
    native.make(built_ahead(), functools.partial(_commands, _PORTABLE))
    sys.stdout.write(f"{built_ahead()}\n")
