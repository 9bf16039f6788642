"""`InductorBackend`: torch.compile's code generator, ahead of time (AOTInductor): a library that loads without a compiler."""

import os
import shutil
from pathlib import Path
from typing import Any

import torch
from typing_extensions import override

from penstock_api.types.model import ModelBackend
from penstock_runtime.engine.continuous.steps.options import DType
from penstock_runtime.engine.model import ModelInfo, describe
from penstock_runtime.models.backends.base import Backend, BackendFailed, Call, Program
from penstock_runtime.models.device.tensors import to_numpy, to_torch
from penstock_runtime.models.precision import is_narrow
from penstock_runtime.request import Tensor

_FILE = "model.pt2"
_WORK_FOLDER = "TORCHINDUCTOR_CACHE_DIR"
_COMPILERS = ("g++", "clang++")


class InductorBackend(Backend):
    """Generated C++ for this processor and number of threads."""

    name = ModelBackend.COMPILE
    packages = ("torch",)
    is_machine_code = True

    def __init__(self, dtype: DType = DType.AUTO) -> None:
        self._dtype = dtype

    @override
    def build(self, program: Program, folder: Path, threads: int) -> None:
        if is_narrow(self._dtype):
            raise BackendFailed(
                f"it computes in float32 only, and spec.model.dtype is {self._dtype}"
            )
        if program.exported is None:
            raise BackendFailed("torch compiles torch programs, modules and directories only")
        check_compiler()
        import torch._inductor  # noqa: PLC0415 - seconds, for models that are compiled

        work = folder / "work"
        before = os.environ.get(_WORK_FOLDER)
        os.environ[_WORK_FOLDER] = str(
            work
        )  # its default has the user's name, which a pod's user lacks
        try:
            torch._inductor.aoti_compile_and_package(
                program.exported, package_path=str(folder / _FILE)
            )
        except Exception as error:  # the compiler raises what its parts raise
            raise BackendFailed(f"torch cannot compile it: {describe(error)}") from error
        finally:
            os.environ.pop(_WORK_FOLDER)
            if before is not None:
                os.environ[_WORK_FOLDER] = before
            shutil.rmtree(work, ignore_errors=True)

    @override
    def open(self, folder: Path, info: ModelInfo, threads: int) -> Call:
        try:
            # file, name in it, whether one thread only calls it, runners, device of CUDA
            arguments = (str(folder / _FILE), "model", False, 1, -1)
            loader: Any = torch._C._aoti.AOTIModelPackageLoader(*arguments)
        except RuntimeError as error:
            raise BackendFailed(
                f"torch cannot load the compiled model: {describe(error)}"
            ) from error

        def call(arrays: list[Tensor]) -> list[Tensor]:
            with torch.inference_mode():
                results = loader.run([to_torch(array) for array in arrays])
            return [to_numpy(tensor) for tensor in results]

        return call


def has_compiler() -> bool:
    """Return whether there is a C++ compiler, which torch calls."""
    return any(shutil.which(name) for name in _compilers())


def check_compiler() -> None:
    """Raise `BackendFailed` if there is no C++ compiler."""
    if not has_compiler():
        raise BackendFailed(
            f"there is no C++ compiler ({' or '.join(_compilers())}): put g++ into the image"
        )


def _compilers() -> tuple[str, ...]:
    named = os.environ.get("CXX")
    return (named,) if named else _COMPILERS
