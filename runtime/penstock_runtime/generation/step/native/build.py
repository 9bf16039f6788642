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
_BFLOAT16 = "-DBFLOAT16"
_LEVELS = (
    ("v3", "-march=x86-64-v3"),
    ("v4", "-march=x86-64-v4"),
    ("v3", "-march=x86-64-v3", _BFLOAT16),
    ("v4", "-march=x86-64-v4", _BFLOAT16),
    ("v4_multiplying", "-march=x86-64-v4", "-mavx512bf16", _BFLOAT16),
)
"""Of x86-64, which an image is built for; a machine without the first does not load that library."""
_NEEDED = {"x86_64": {"avx2", "fma", "bmi2"}}


def library() -> ctypes.CDLL:
    """Return the library, loaded.

    Raises:
        NoNativeCode: in one line.
    """
    _refuse_old_processors()
    own = f"decoder-{_digest('native', _processor())}.so"
    path = native.found(built_ahead(), own, functools.partial(_commands, _own()))
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


def _commands(parts: Iterable[Sequence[str]], compiler: str, made: Path) -> Iterable[Sequence[str]]:
    """`parts` are what the compiler is told of each: options, then the source."""
    objects = []
    for number, part in enumerate(parts):
        objects.append(f"{made}.{number}.o")
        yield compiler, *FLAGS, *part, "-o", objects[-1]
    yield compiler, "-shared", *objects, "-o", str(made), "-lm"  # OpenMP is torch's own


def _own() -> Iterable[Sequence[str]]:
    level = "-march=native" if platform.machine() == "x86_64" else "-O3"
    return _both_types(level)


def _portable() -> Iterable[Sequence[str]]:
    if platform.machine() != "x86_64":
        return _both_types("-O3")
    levels = [
        (*options, f"-DNAMED(name)=name##_{level}", str(SOURCE)) for level, *options in _LEVELS
    ]
    return [*levels, (str(SOURCE.with_name("either.c")),)]


def _both_types(level: str) -> Sequence[Sequence[str]]:
    return [(level, str(SOURCE)), (level, _BFLOAT16, str(SOURCE))]


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


def make_portable(target: Path) -> None:
    """Compile to `target` what runs on any machine of this kind.

    Raises:
        NoNativeCode: there is no compiler, or it fails.
    """
    native.make(target, functools.partial(_commands, _portable()))


if __name__ == "__main__":
    make_portable(built_ahead())
    sys.stdout.write(f"{built_ahead()}\n")
