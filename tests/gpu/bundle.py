"""`make gpu-bundle`: the packages that a bare GPU machine lacks, unpacked into one folder for PYTHONPATH.

The machine has torch and transformers with what they bring; everything else of the extra `runtime` is here, at the
pinned versions. ONNX, ONNX Runtime, OpenVINO and s3fs stay out: no part needs them on a GPU.
"""

import argparse
import shutil
import subprocess
import sys
import tempfile
import tomllib
import zipfile
from collections.abc import Iterable
from dataclasses import dataclass
from pathlib import Path

CHECKOUT = Path(__file__).parents[2]
FOLDER = CHECKOUT / "build" / "gpu-bundle"
MAX_MEBIBYTES = 40.0
PYTHON = "3.12"
PLATFORMS = ("manylinux2014_x86_64", *(f"manylinux_2_{minor}_x86_64" for minor in range(17, 36)))
"""Up to the glibc of Ubuntu 22.04; pip compares tags literally."""
ON_THE_MACHINE = frozenset(
    {
        "aiohttp", "huggingface-hub", "jinja2", "numpy", "safetensors", "tokenizers", "torch",
        "transformers", "typing-extensions",
    }
)  # fmt: skip
"""Requirements that torch, transformers and aiohttp satisfy themselves."""
LEFT_OUT = frozenset({"onnx", "onnxruntime", "onnxscript", "openvino", "s3fs"})


@dataclass(frozen=True, slots=True)
class Bundled:
    """One wheel of the bundle."""

    wheel: str
    mebibytes: float
    """Unpacked."""


def main() -> int:
    """Fill the folder and print what is in it; the exit status is 1 if it is too large."""
    parser = argparse.ArgumentParser(prog="python -m tests.gpu.bundle", description=__doc__)
    parser.add_argument("--folder", type=Path, default=FOLDER)
    folder = parser.parse_args().folder
    bundled = fill(folder, requirements(CHECKOUT / "pyproject.toml"))
    total = mebibytes(folder)
    for each in bundled:
        print(f"{each.mebibytes:7.1f} MiB  {each.wheel}")
    print(f"{total:7.1f} MiB in {folder}, at most {MAX_MEBIBYTES:g}")
    return 1 if total > MAX_MEBIBYTES else 0


def requirements(pyproject: Path) -> list[str]:
    """Return the pinned requirements of the runtime that the machine lacks."""
    project = tomllib.loads(pyproject.read_text())["project"]
    pinned = [*project["dependencies"], *project["optional-dependencies"]["runtime"]]
    return sorted(each for each in pinned if name_of(each) not in ON_THE_MACHINE | LEFT_OUT)


def name_of(requirement: str) -> str:
    """Return the name of the package in a requirement."""
    return requirement.partition("==")[0].partition(">=")[0].strip().lower()


def fill(folder: Path, wanted: Iterable[str]) -> list[Bundled]:
    """Download the wheels of `wanted` and of what they need, and unpack them into an emptied `folder`."""
    shutil.rmtree(folder, ignore_errors=True)
    folder.mkdir(parents=True)
    with tempfile.TemporaryDirectory() as downloads:
        platforms = [word for name in PLATFORMS for word in ("--platform", name)]
        words = ["--only-binary=:all:", "--implementation", "cp", "--python-version", PYTHON]
        pip = [sys.executable, "-m", "pip", "download", "--quiet", "--disable-pip-version-check"]
        subprocess.run([*pip, *words, *platforms, "--dest", downloads, *wanted], check=True)
        return [unpacked(wheel, folder) for wheel in sorted(Path(downloads).glob("*.whl"))]


def unpacked(wheel: Path, folder: Path) -> Bundled:
    """Unpack `wheel` into `folder`, without the symbols of its libraries: uvloop's are nine tenths of it."""
    before = mebibytes(folder)
    with zipfile.ZipFile(wheel) as archive:
        archive.extractall(folder)
        libraries = [name for name in archive.namelist() if name.endswith(".so")]
    if libraries and shutil.which("strip"):
        subprocess.run(["strip", "--strip-unneeded", *libraries], cwd=folder, check=True)
    return Bundled(wheel.name, mebibytes(folder) - before)


def mebibytes(folder: Path) -> float:
    """Return the size of all files below `folder`."""
    return sum(file.stat().st_size for file in folder.rglob("*") if file.is_file()) / 2**20


if __name__ == "__main__":
    sys.exit(main())
