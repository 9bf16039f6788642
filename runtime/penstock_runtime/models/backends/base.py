"""`Backend`: the interface of what runs a one-shot model; eager torch is the source's own and is the reference."""

import warnings
from collections.abc import Callable, Iterator, Sequence
from contextlib import contextmanager
from dataclasses import dataclass
from importlib.metadata import PackageNotFoundError, version
from pathlib import Path
from typing import Protocol

from torch.export import ExportedProgram

from penstock_api.types.model import ModelBackend
from penstock_runtime.engine.model import ModelInfo
from penstock_runtime.request import Tensor

Call = Callable[[list[Tensor]], list[Tensor]]
"""A batch: C-contiguous arrays (rows, ...) of the declared inputs' dtypes, in declared order; returns one array
(rows, ...) for each declared output, of its dtype, in memory that the next call does not overwrite."""


class BackendFailed(Exception):
    """A backend cannot run the model; the message has one line: the package, the operator or the difference."""


class BackendFailedOnce(BackendFailed):
    """A backend cannot run the model now, for a reason that another load may not have, such as a full volume."""


@dataclass(frozen=True, slots=True)
class Program:
    """What a backend compiles: exactly one of a torch program and a file."""

    info: ModelInfo
    exported: ExportedProgram | None = None
    """Takes the declared inputs in order, and returns the declared outputs in order."""
    file: Path | None = None
    """An `.onnx` file or an OpenVINO IR (`.xml`)."""


class Backend(Protocol):
    """A backend with compiled files; all run in the thread that calls them, on CPUs."""

    name: ModelBackend
    packages: tuple[str, ...]
    """Packages whose versions decide about the compiled files."""
    is_machine_code: bool
    """Whether the files contain code, which a pod takes from no volume that others may write."""

    def build(self, program: Program, folder: Path, threads: int) -> None:
        """Compile `program` for `threads` threads into the empty `folder`.

        Raises:
            BackendFailed: the backend does not support the program, or lacks a compiler.
        """

    def open(self, folder: Path, info: ModelInfo, threads: int) -> Call:
        """Return the call of the compiled files in `folder`.

        Raises:
            BackendFailed: the files cannot be read.
        """


@contextmanager
def compiling() -> Iterator[None]:
    """Drop the warnings of exporters and compilers, which are about their own code."""
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")
        yield


def check_installed(packages: Sequence[str]) -> None:
    """Raise `BackendFailed` that names the packages that are not installed."""
    missing = [package for package in packages if installed_version(package) is None]
    if missing:
        raise BackendFailed(
            f"{' and '.join(missing)} {'is' if len(missing) == 1 else 'are'} not installed in the image"
        )


def installed_version(package: str) -> str | None:
    """Return the version of an installed package, or None; imports nothing."""
    try:
        return version(package)
    except PackageNotFoundError:
        return None
