"""C sources as libraries: one that was built ahead lies beside its source; else a compiler makes one, once.

What is built ahead is built by an image's compiler stage, which has this file, the sources' own folders, and no
package: nothing but the standard library is imported here.
"""

import hashlib
import os
import shutil
import subprocess
import tempfile
from collections.abc import Callable, Iterable, Sequence
from pathlib import Path

_COMPILE_SECONDS = 120

Commands = Callable[[str, Path], Iterable[Sequence[str]]]
"""From a compiler and the library's path to the commands that make it; what they leave beside it is thrown away."""


class NoNativeCode(Exception):
    """A library can neither be found nor made here; the message says why."""


def digest(sources: Iterable[Path], *words: str) -> str:
    """Return 16 characters that differ where any source or word does: a library is named by all it depends on."""
    held = hashlib.sha256(b"".join(one.read_bytes() for one in sources))
    held.update(" ".join(words).encode())
    return held.hexdigest()[:16]


def found(ahead: Path, name: str, commands: Commands) -> Path:
    """Return the library that was built ahead, else the one called `name` in the user's cache, made if it is not there.

    Raises:
        NoNativeCode: there is no compiler, it fails, or the cache cannot be written.
    """
    if ahead.is_file():
        return ahead
    home = os.environ.get("XDG_CACHE_HOME") or Path.home() / ".cache"
    target = Path(home) / "penstock" / "native" / name
    if not target.is_file():
        try:
            make(target, commands)
        except OSError as error:  # a read-only home
            raise NoNativeCode(f"{target.parent} cannot be written: {error}") from error
    return target


def make(target: Path, commands: Commands) -> None:
    """Compile to `target`, which appears whole or not at all.

    Raises:
        NoNativeCode: there is no compiler, or it fails.
        OSError: the target's folder cannot be written.
    """
    compiler = shutil.which("cc") or shutil.which("gcc") or shutil.which("clang")
    if compiler is None:
        raise NoNativeCode("there is no C compiler, and the image was built without the library")
    target.parent.mkdir(parents=True, exist_ok=True)
    with tempfile.TemporaryDirectory(dir=target.parent) as folder:
        made = Path(folder) / target.name
        for command in commands(compiler, made):
            _run(command)
        made.replace(target)


def _run(command: Sequence[str]) -> None:
    ran = subprocess.run(  # noqa: S603  a compiler from PATH, our own source
        command, capture_output=True, text=True, timeout=_COMPILE_SECONDS, check=False
    )
    if ran.returncode != 0:
        raise NoNativeCode(f"{command[0]} failed: {(ran.stderr.splitlines() or ['?'])[0]}")
