"""`CompiledCache`: choices of backends and compiled models on disk, by content, machine and versions.

    <folder>/<key>/<wanted>.json        the choice under `spec.model.backend: <wanted>`, and the model's tensors
    <folder>/<key>/<backend>/           the compiled files of a backend

Files appear complete, by renaming, so pods that share a folder need no lock; the last writer of a choice wins.
"""

import hashlib
import json
import logging
import os
import shutil
import tempfile
import time
from collections.abc import Callable, Sequence
from contextlib import suppress
from dataclasses import asdict, dataclass, replace
from functools import cached_property
from pathlib import Path
from typing import Any

from penstock_api.pod_contract import MAX_LOAD_SECONDS, ModelBackendState
from penstock_api.types.model import ModelBackend, Task
from penstock_runtime.engine.model import ModelInfo, TensorSpec
from penstock_runtime.models.backends.base import Backend, BackendFailedOnce, installed_version
from penstock_runtime.models.backends.inductor import has_compiler

log = logging.getLogger(__name__)

FORMAT = 1
"""Version of the files' content and of the code that writes them; another one is another key."""
_PACKAGES = ("torch", "openvino", "onnxruntime", "onnx", "onnxscript", "transformers", "numpy")


@dataclass(frozen=True, slots=True)
class BackendChoice:
    """A backend that was selected, and what a model needs besides its compiled files."""

    info: ModelInfo
    min_rows: int
    state: ModelBackendState

    @property
    def backend(self) -> ModelBackend:
        """The selected backend."""
        return ModelBackend(self.state.name)


class CompiledCache:
    """The compiled models of one source on one machine."""

    def __init__(self, shared: Path, private: Path, key: Callable[[], str]) -> None:
        """`shared`: next to the model if that can be written; `private`: only this pod writes it.

        `key` reads the whole model, so that it is called at the first use.
        """
        self._folders, self._key_of = (shared, private), key

    @cached_property
    def _key(self) -> str:
        return self._key_of()

    @property
    def _shared(self) -> Path:
        return self._folders[0] / self._key

    @property
    def _private(self) -> Path:
        return self._folders[1] / self._key

    def choice(self, wanted: ModelBackend) -> BackendChoice | None:
        """Return the stored choice, or None without a readable one."""
        for folder in (self._shared, self._private):
            try:
                stored = json.loads((folder / f"{wanted}.json").read_bytes())
                return BackendChoice(
                    _info(stored["info"]),
                    int(stored["minRows"]),
                    ModelBackendState.model_validate_json(json.dumps(stored["state"])),
                )
            except FileNotFoundError:
                continue
            except (OSError, ValueError, KeyError, TypeError, AttributeError) as error:
                log.warning("the choice in %s cannot be read and is made again: %s", folder, error)
        return None

    def store(self, wanted: ModelBackend, choice: BackendChoice) -> None:
        """Store a choice; a volume without room costs the next load its time, no more."""
        info = asdict(replace(choice.info, model_backend=None))
        for spec in info["inputs"]:
            spec["values"] = spec["values"] and [spec["values"].start, spec["values"].stop]
        content = {
            "info": info,
            "minRows": choice.min_rows,
            "state": choice.state.model_dump(mode="json", by_alias=True),
        }
        machine_code = choice.backend is ModelBackend.COMPILE
        folder = self._private if machine_code else self._writable(self._shared)
        try:
            folder.mkdir(parents=True, exist_ok=True)
            with tempfile.NamedTemporaryFile("w", dir=folder, delete=False) as file:
                complete = Path(file.name)
                try:
                    json.dump(content, file)
                    file.flush()
                    complete.chmod(0o644)
                    complete.rename(folder / f"{wanted}.json")
                except OSError:
                    complete.unlink(missing_ok=True)
                    raise
        except OSError as error:
            log.warning("the choice of the backend is not cached: %s", error)

    def compiled(self, backend: Backend) -> Path | None:
        """Return the folder of a backend's files, or None if there is none."""
        roots = (self._private,) if backend.is_machine_code else (self._shared, self._private)
        folders = (root / backend.name for root in roots)
        return next((folder for folder in folders if folder.is_dir()), None)

    def build(self, backend: Backend, build: Callable[[Path], None]) -> Path:
        """Return the folder of a backend's files, written by `build` into an empty folder.

        Raises:
            BackendFailed: as `build`.
            BackendFailedOnce: the volume has no room.
        """
        root = self._private if backend.is_machine_code else self._writable(self._shared)
        try:
            root.mkdir(parents=True, exist_ok=True)
            _remove_abandoned(root, backend)
            unfinished = Path(tempfile.mkdtemp(prefix=f".{backend.name}-", dir=root))
            try:
                build(unfinished)
                unfinished.chmod(0o755)
                return _renamed(unfinished, root / backend.name)
            finally:
                shutil.rmtree(unfinished, ignore_errors=True)
        except OSError as error:
            raise BackendFailedOnce(f"its files cannot be written: {error}") from error

    def discard(self, backend: Backend) -> None:
        """Remove a backend's files, which do not open or do not agree."""
        for root in (self._shared, self._private):
            shutil.rmtree(root / backend.name, ignore_errors=True)

    def _writable(self, folder: Path) -> Path:
        """Return `folder`, or the private one where it cannot be written (a read-only volume)."""
        try:
            folder.mkdir(parents=True, exist_ok=True)
        except OSError:
            return self._private
        return folder if os.access(folder, os.W_OK) else self._private


def key_of(digest: str, task: Task, threads: int, machine: str) -> str:
    """Return the name of a source's folder; `machine` describes the processor.

    A choice that was made without a C++ compiler, for which one backend is rejected, does not hold where there is one.
    """
    versions = [f"{package} {installed_version(package)}" for package in _PACKAGES]
    compiler = f"C++ compiler {has_compiler()}"
    parts = [f"format {FORMAT}", digest, task, f"{threads} threads", machine, compiler, *versions]
    return hashlib.sha256("\n".join(parts).encode()).hexdigest()[:32]


def digest_of(files: Sequence[Path], folder: Path | None = None) -> str:
    """Return a digest of the contents of `files`, and of names, sizes and times of the files in `folder`, not below."""
    digest = hashlib.sha256()
    for file in files:
        digest.update(f"{file.name}\n".encode())
        with file.open("rb") as content:
            digest.update(hashlib.file_digest(content, "sha256").digest())
    for file in sorted(filter(Path.is_file, folder.iterdir())) if folder else ():
        attributes = file.stat()
        digest.update(f"{file.name} {attributes.st_size} {attributes.st_mtime_ns}\n".encode())
    return digest.hexdigest()


def _remove_abandoned(root: Path, backend: Backend) -> None:
    """Remove what pods left that were killed while they compiled: none compiles for longer than it may load."""
    for folder in root.glob(f".{backend.name}-*"):
        with suppress(OSError):  # another pod removes it too
            if time.time() - folder.stat().st_mtime > MAX_LOAD_SECONDS:
                shutil.rmtree(folder)


def _renamed(built: Path, folder: Path) -> Path:
    try:
        return built.rename(folder)
    except OSError:  # another pod was first: its files are the same
        if not folder.is_dir():
            raise
        return folder


def _info(stored: dict[str, Any]) -> ModelInfo:
    specs = {kind: tuple(map(_spec, stored.pop(kind))) for kind in ("inputs", "outputs")}
    lists = {name: tuple(stored.pop(name)) for name in ("length_buckets", "labels")}
    return ModelInfo(**{**stored, **specs, **lists, "task": Task(stored["task"])})


def _spec(stored: dict[str, Any]) -> TensorSpec:
    values = stored["values"]
    return TensorSpec(
        **{
            **stored,
            "shape": tuple(stored["shape"]),
            "bounds": tuple(tuple(bound) for bound in stored["bounds"]),
            "values": range(*values) if values else None,
        }
    )
