"""A virtual environment for each peer in the cache, which shares torch with the project's own."""

import fcntl
import os
import subprocess
import sys
import sysconfig
from pathlib import Path
from typing import Final

CACHE: Final = Path(os.environ.get("PENSTOCK_CACHE") or Path.home() / ".cache" / "penstock")
FOLDER: Final = CACHE / "bench-peers"
INSTALL_SECONDS: Final = 900.0


class NotInstalledError(Exception):
    """A peer that does not install here; the message is pip's last line."""


def python_of(package: str) -> Path:
    """Return the interpreter that has `package`; the project's own for none."""
    return Path(sys.executable) if not package else _folder(package) / "bin" / "python"


def install(package: str) -> None:
    """Install `package`, one or several requirements, if it is missing, and link the project's torch.

    The link is renewed on each call, because the cache may outlive a checkout, and before pip runs, so that pip finds
    torch installed. A lock serializes concurrent installations of a peer.

    Raises:
        NotInstalledError: pip failed.
    """
    folder = _folder(package)
    FOLDER.mkdir(parents=True, exist_ok=True)
    with (FOLDER / f"{folder.name}.lock").open("w") as lock:
        fcntl.flock(lock, fcntl.LOCK_EX)
        if (folder / "installed").exists():
            _link_torch(folder)
            return
        subprocess.run([sys.executable, "-m", "venv", "--without-pip", str(folder)], check=True)
        _link_torch(folder)
        _pip(folder, package)
        (folder / "installed").touch()


def _pip(folder: Path, package: str) -> None:
    python = str(folder / "bin" / "python")
    pip = [sys.executable, "-m", "pip", "--python", python, "install", "-q", *package.split()]
    try:
        done = subprocess.run(
            pip, check=False, capture_output=True, text=True, timeout=INSTALL_SECONDS
        )
    except subprocess.TimeoutExpired as error:
        raise NotInstalledError(f"{package}: not installed within {INSTALL_SECONDS:g} s") from error
    if done.returncode:
        last = (done.stderr.strip().splitlines() or ["pip failed"])[-1]
        raise NotInstalledError(f"{package}: {last[:200]}")


def _link_torch(folder: Path) -> None:
    """Add the project's packages to the environment's path, after its own."""
    own = (
        folder
        / "lib"
        / f"python{sys.version_info.major}.{sys.version_info.minor}"
        / "site-packages"
    )
    (own / "zz_project.pth").write_text(sysconfig.get_path("purelib") + "\n")


def _folder(package: str) -> Path:
    return FOLDER / package.split(maxsplit=1)[0].replace("[", "-").replace("]", "")
