"""Find or make the library. One that was built ahead lies beside the source; else a compiler makes one, once."""

import ctypes
import hashlib
import os
import platform
import shutil
import subprocess
import sys
import tempfile
from pathlib import Path

SOURCE = Path(__file__).with_name("decoder.c")
FLAGS = ("-O3", "-ffp-contract=off", "-fno-math-errno", "-fPIC", "-fopenmp", "-c")
"""No contraction: what is fused is said in the source, so that every copy of a loop rounds alike."""
_PORTABLE = {"x86_64": "-march=x86-64-v3"}
"""What an image is built for; a machine without it does not load that library."""
_NEEDED = {"x86_64": {"avx2", "fma", "bmi2"}}
_COMPILE_SECONDS = 120


class NoNativeCode(Exception):
    """The library can neither be found nor made here; the message says why."""


def library() -> ctypes.CDLL:
    """Return the library, loaded.

    Raises:
        NoNativeCode: in one line.
    """
    _refuse_old_processors()
    ahead = built_ahead()
    path = ahead if ahead.is_file() else _made_here()
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


def _made_here() -> Path:
    """Compile for this very machine into the user's own cache."""
    home = os.environ.get("XDG_CACHE_HOME") or Path.home() / ".cache"
    target = Path(home) / "penstock" / "native" / f"decoder-{_digest('native', _processor())}.so"
    if not target.is_file():
        try:
            compile_to(target, "-march=native" if platform.machine() == "x86_64" else "-O3")
        except OSError as error:  # a read-only home
            raise NoNativeCode(f"{target.parent} cannot be written: {error}") from error
    return target


def compile_to(target: Path, architecture: str) -> None:
    """Compile the source; the file appears whole or not at all.

    Raises:
        NoNativeCode: there is no compiler, or it fails.
    """
    compiler = shutil.which("cc") or shutil.which("gcc") or shutil.which("clang")
    if compiler is None:
        raise NoNativeCode("there is no C compiler, and the image was built without the library")
    target.parent.mkdir(parents=True, exist_ok=True)
    with tempfile.TemporaryDirectory(dir=target.parent) as folder:
        part, made = Path(folder) / "decoder.o", Path(folder) / target.name
        _ran(compiler, *FLAGS, architecture, str(SOURCE), "-o", str(part))
        _ran(compiler, "-shared", str(part), "-o", str(made), "-lm")  # OpenMP is torch's own
        made.replace(target)


def _ran(*command: str) -> None:
    ran = subprocess.run(  # noqa: S603  a compiler from PATH, our own source
        command, capture_output=True, text=True, timeout=_COMPILE_SECONDS, check=False
    )
    if ran.returncode != 0:
        raise NoNativeCode(f"{command[0]} failed: {(ran.stderr.splitlines() or ['?'])[0]}")


def _digest(*words: str) -> str:
    text = " ".join([*FLAGS, platform.machine(), *words]).encode()
    sources = sorted(SOURCE.parent.glob("*.[ch]"))
    return hashlib.sha256(b"".join(one.read_bytes() for one in sources) + text).hexdigest()[:16]


def _processor() -> str:
    """What `-march=native` depends on: a home that machines share must not mix them up."""
    try:
        lines = Path("/proc/cpuinfo").read_text().splitlines()
    except OSError:
        return platform.processor()
    return next((line for line in lines if line.startswith(("flags", "Features"))), "")


if __name__ == "__main__":
    compile_to(built_ahead(), _PORTABLE.get(platform.machine(), "-O3"))
    sys.stdout.write(f"{built_ahead()}\n")
