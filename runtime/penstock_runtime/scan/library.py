"""`scan.c` as an extension of the interpreter. Where it can be neither found nor made, bodies are read by msgspec, slower."""

import importlib.util
import logging
import sys
import sysconfig
from collections.abc import Callable, Iterable, Sequence
from importlib.machinery import ExtensionFileLoader
from pathlib import Path

from penstock_runtime import native
from penstock_runtime.native import NoNativeCode

log = logging.getLogger(__name__)

Scan = Callable[[bytes, str], tuple[bytes, bytes] | None]
"""As `scan` in `scan.c`: a body and `struct`'s letter -> the body without its numbers, and their bytes."""

SOURCE = Path(__file__).with_name("scan.c")
FLAGS = ("-O2", "-Wall", "-Wextra", "-fPIC", "-shared")


def scanner() -> Scan | None:
    """Return the native reader, or None where there is none; takes a second where it must be compiled."""
    try:
        return load(native.found(built_ahead(), _name(), _commands))
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
    """Return where `python -m penstock_runtime.scan.library` puts the library."""
    return SOURCE.with_name(_name())


def _commands(compiler: str, made: Path) -> Iterable[Sequence[str]]:
    headers = f"-I{sysconfig.get_paths()['include']}"
    return [(compiler, *FLAGS, headers, str(SOURCE), "-o", str(made))]


def _name() -> str:
    """Name the library by all that it depends on: source, flags, and the interpreter's own interface."""
    interface = str(sysconfig.get_config_var("SOABI"))
    return f"penstock_scan-{native.digest([SOURCE], *FLAGS, interface)}.so"


if __name__ == "__main__":
    native.make(built_ahead(), _commands)
    sys.stdout.write(f"{built_ahead()}\n")
