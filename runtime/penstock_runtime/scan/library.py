"""Find or make `scan.c` as an extension. One that was built ahead lies beside the source; else a compiler makes one, once.

Without a compiler and without that file there is none, and bodies are read by msgspec, slower.
"""

import hashlib
import importlib.util
import logging
import os
import shutil
import subprocess
import sys
import sysconfig
import tempfile
from collections.abc import Callable
from importlib.machinery import ExtensionFileLoader
from pathlib import Path

log = logging.getLogger(__name__)

Scan = Callable[[bytes, str], tuple[bytes, bytes] | None]
"""As `scan` in `scan.c`: a body and `struct`'s letter -> the body without its numbers, and their bytes."""

SOURCE = Path(__file__).with_name("scan.c")
FLAGS = ("-O2", "-Wall", "-Wextra", "-fPIC", "-shared")
_COMPILE_SECONDS = 60


class NoNativeCode(Exception):
    """The library can neither be found nor made here; the message says why."""


def scanner() -> Scan | None:
    """Return the native reader, or None where there is none; takes a second where it must be compiled."""
    try:
        return load(built_ahead() if built_ahead().is_file() else _made_here())
    except NoNativeCode as error:
        log.info("bodies are read without native code: %s", error)
        return None


def load(path: Path) -> Scan:
    """Return `scan` of the library at `path`.

    Raises:
        NoNativeCode: it does not load here.
    """
    spec = importlib.util.spec_from_file_location(
        "penstock_scan", path, loader=ExtensionFileLoader("penstock_scan", str(path))
    )
    assert spec is not None  # noqa: S101 - a loader was given
    assert spec.loader is not None  # noqa: S101
    try:
        module = importlib.util.module_from_spec(spec)
        spec.loader.exec_module(module)
    except ImportError as error:
        raise NoNativeCode(f"{path} does not load: {error}") from error
    found: Scan = module.scan
    return found


def built_ahead() -> Path:
    """Return where `python library.py` puts the library."""
    return SOURCE.with_name(_name())


def _made_here() -> Path:
    """Compile into the user's own cache."""
    home = os.environ.get("XDG_CACHE_HOME") or Path.home() / ".cache"
    target = Path(home) / "penstock" / "native" / _name()
    if not target.is_file():
        try:
            compile_to(target)
        except OSError as error:  # a read-only home
            raise NoNativeCode(f"{target.parent} cannot be written: {error}") from error
    return target


def compile_to(target: Path) -> None:
    """Compile the source; the file appears whole or not at all.

    Raises:
        NoNativeCode: there is no compiler, or it fails.
    """
    compiler = shutil.which("cc") or shutil.which("gcc") or shutil.which("clang")
    if compiler is None:
        raise NoNativeCode("there is no C compiler, and the image was built without the library")
    target.parent.mkdir(parents=True, exist_ok=True)
    headers = f"-I{sysconfig.get_paths()['include']}"
    with tempfile.TemporaryDirectory(dir=target.parent) as folder:
        made = Path(folder) / target.name
        ran = subprocess.run(  # noqa: S603  a compiler from PATH, our own source
            [compiler, *FLAGS, headers, str(SOURCE), "-o", str(made)],
            capture_output=True,
            text=True,
            timeout=_COMPILE_SECONDS,
            check=False,
        )
        if ran.returncode != 0:
            raise NoNativeCode(f"{compiler} failed: {(ran.stderr.splitlines() or ['?'])[0]}")
        made.replace(target)


def _name() -> str:
    """Name the library by all that it depends on: source, flags, and the interpreter's own interface."""
    text = " ".join([*FLAGS, str(sysconfig.get_config_var("SOABI"))]).encode()
    digest = hashlib.sha256(SOURCE.read_bytes() + text).hexdigest()[:16]
    return f"penstock_scan-{digest}.so"


if __name__ == "__main__":
    compile_to(built_ahead())
    sys.stdout.write(f"{built_ahead()}\n")
