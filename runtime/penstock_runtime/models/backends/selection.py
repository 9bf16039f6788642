"""`load_on`: loads a source on the backend that is requested, or on the fastest that agrees with the untouched model."""

import gc
import logging
import time
from collections.abc import Callable, Sequence
from dataclasses import dataclass, field, replace
from functools import cached_property
from pathlib import Path

from penstock_api.pod_contract import BackendCandidate, ModelBackendState
from penstock_api.types.model import ModelBackend
from penstock_runtime.engine.continuous.steps.options import DType
from penstock_runtime.engine.model import Model, ModelInfo, ModelLoadFailed, describe
from penstock_runtime.models.backends.array_model import ArrayModel
from penstock_runtime.models.backends.base import (
    Backend,
    BackendFailed,
    BackendFailedOnce,
    Program,
    check_installed,
    compiling,
)
from penstock_runtime.models.backends.cache import BackendChoice, CompiledCache
from penstock_runtime.models.backends.inductor import InductorBackend
from penstock_runtime.models.backends.onnx_runtime import OnnxRuntimeBackend
from penstock_runtime.models.backends.openvino_backend import OpenVinoProgramBackend
from penstock_runtime.models.backends.samples import Batch, batches, greatest_error
from penstock_runtime.models.backends.source import Source
from penstock_runtime.models.backends.timing import Rates, fastest, rates
from penstock_runtime.models.precision import is_narrow
from penstock_runtime.request import Tensor

log = logging.getLogger(__name__)

BUILD_SECONDS = 60.0
"""Time after which Auto starts to compile for no further backend."""


def backends_for(dtype: DType) -> tuple[Backend, ...]:
    """Return the backends for a requested type, those that take the least time to compile first."""
    return OpenVinoProgramBackend(dtype), OnnxRuntimeBackend(dtype), InductorBackend(dtype)


@dataclass(slots=True)
class _Compiled:
    """A model on another backend, which agrees with the untouched one."""

    model: Model
    info: ModelInfo
    min_rows: int
    greatest_error: float


@dataclass(frozen=True)
class Loader:
    """Loads one source; what several backends need is made once."""

    source: Source
    cache: CompiledCache
    threads: int
    clock: Callable[[], float] = time.monotonic
    backends: Sequence[Backend] = field(default_factory=lambda: backends_for(DType.AUTO))

    def load(self, wanted: ModelBackend) -> Model:
        """Return the model on the backend `wanted`.

        Raises:
            ModelLoadFailed: the model does not load; or the backend is named, and is not installed, does not support
                the model, or computes something else; the message says which.
        """
        if wanted is self.source.native and not self._compiles_native:
            return on_native(self.source)
        if self.source.device.type != "cpu":
            return self._on_gpu(wanted)
        cached = self._cached(wanted)
        if cached is not None:
            return cached
        return self._fastest() if wanted is ModelBackend.AUTO else self._named(wanted)

    @property
    def _compiles_native(self) -> bool:
        """Whether a narrow type of a file needs compiled files: torch narrows its own models when it loads them."""
        return is_narrow(self.source.dtype) and self.source.native is not ModelBackend.EAGER

    def _on_gpu(self, wanted: ModelBackend) -> Model:
        message = "it runs on CPUs only, and this pod has a GPU"
        if wanted is not ModelBackend.AUTO:
            raise self._failed(wanted, message)
        others = tuple(_without(backend.name, message) for backend in self.backends)
        return on_native(self.source, ModelBackendState(name=self.source.native, candidates=others))

    def _cached(self, wanted: ModelBackend) -> Model | None:
        choice = self.cache.choice(wanted)
        if choice is None:
            return None
        state = choice.state.model_copy(update={"cached": True})
        if choice.backend is self.source.native and not self._compiles_native:
            return on_native(self.source, state)
        backend = self._backend(choice.backend)
        folder = self.cache.compiled(backend)
        if folder is None:
            return None
        try:
            model = self.source.wrap(
                ArrayModel(
                    choice.info, backend.open(folder, choice.info, self.threads), choice.min_rows
                )
            )
            if not self.source.digest_is_exact:
                self._compare(model)
        except BackendFailed as error:
            log.warning("the cached model of %s is built again: %s", choice.backend, error)
            self.cache.discard(backend)
            return None
        return with_state(model, state)

    def _named(self, wanted: ModelBackend) -> Model:
        try:
            compiled = self._compiled(self._backend(wanted))
        except BackendFailed as error:
            raise self._failed(wanted, str(error)) from error
        candidate = BackendCandidate(name=wanted, greatest_error=compiled.greatest_error)
        state = ModelBackendState(name=wanted, candidates=(candidate,))
        self.cache.store(wanted, BackendChoice(compiled.info, compiled.min_rows, state))
        return with_state(compiled.model, state)

    def _fastest(self) -> Model:
        began, native = self.clock(), self.source.native
        compiled: dict[str, _Compiled] = {}
        rejected: list[BackendCandidate] = []
        holds, known = True, self._with_files()
        for backend in self.backends:
            if backend.name is native and not self._compiles_native:
                continue
            try:
                if self.clock() - began > BUILD_SECONDS:
                    raise self._not_tried(known)
                compiled[backend.name] = self._compiled(backend)
            except BackendFailed as error:
                rejected.append(_without(backend.name, str(error)))
                holds = holds and not isinstance(error, BackendFailedOnce)
        own = self._own(rejected)
        models = {name: each.model for name, each in compiled.items()}
        if own is not None:
            models = {str(native): own, **models}
        if not models:
            reasons = "; ".join(f"{each.name}: {each.message}" for each in rejected)
            raise ModelLoadFailed(
                f"no backend computes the model in {self.source.dtype}: {reasons}: remove spec.model.dtype"
            )
        measured = rates(models, self._batches, self.clock)
        selected = fastest(measured)
        errors = {name: each.greatest_error for name, each in compiled.items()}
        if self.source.precision_error is not None:
            errors[native] = self.source.precision_error
        state = self._state(selected, measured, errors, rejected)
        log.info("%s", sentence(state))
        used = compiled.get(selected)
        info, rows = (used.info, used.min_rows) if used else (models[selected].info, 1)
        if holds:
            self.cache.store(ModelBackend.AUTO, BackendChoice(info, rows, state))
        model = models[selected]
        del models, compiled, own, used
        gc.collect()
        return with_state(model, state)

    def _with_files(self) -> set[str]:
        return {each.name for each in self.backends if self.cache.compiled(each) is not None}

    def _not_tried(self, known: set[str]) -> BackendFailed:
        """Return the error of a backend after the time limit: another load has time for it if this one has compiled others than `known`."""
        failed = BackendFailedOnce if self._with_files() - known else BackendFailed
        return failed(f"not tried: the time limit of {BUILD_SECONDS:g} s")

    def _own(self, rejected: list[BackendCandidate]) -> Model | None:
        """Return the native model; in a narrow type None if it cannot compute, with the reason in `rejected`."""
        if self._compiles_native:
            return None
        try:
            return self.source.native_model()
        except ModelLoadFailed as error:
            if not is_narrow(self.source.dtype):
                raise
            rejected.append(_without(self.source.native, str(error)))
            return None

    def _state(
        self,
        selected: str,
        measured: Rates,
        errors: dict[str, float],
        rejected: list[BackendCandidate],
    ) -> ModelBackendState:
        candidates = [
            BackendCandidate(
                name=name,
                rows_per_second=tuple(round(rate, 1) for rate in by_size),
                greatest_error=errors.get(name),
            )
            for name, by_size in measured.items()
        ]
        sizes = tuple(len(next(iter(batch.values()))) for batch in self._batches)
        return ModelBackendState(
            name=selected, batch_sizes=sizes, candidates=(*candidates, *rejected)
        )

    def _compiled(self, backend: Backend) -> _Compiled:
        """Return the model on `backend`, from its files if there are usable ones."""
        check_installed(backend.packages)
        if isinstance(self._program, BackendFailed):
            raise self._program
        folder = self.cache.compiled(backend)
        if folder is not None:
            try:
                return self._opened(backend, folder)
            except BackendFailed as error:
                log.warning("the cached model of %s is built again: %s", backend.name, error)
        program, _ = self._program
        return self._opened(
            backend,
            self.cache.build(backend, lambda empty: _build(backend, program, empty, self.threads)),
        )

    def _opened(self, backend: Backend, folder: Path) -> _Compiled:
        assert not isinstance(self._program, BackendFailed)  # noqa: S101 - the caller has checked it
        program, min_rows = self._program
        try:
            call = backend.open(folder, program.info, self.threads)
            model = self.source.wrap(ArrayModel(program.info, call, min_rows))
            error = self._compare(model)
        except BackendFailed:
            self.cache.discard(backend)
            raise
        return _Compiled(model, program.info, min_rows, error)

    def _compare(self, model: Model) -> float:
        """Return the greatest relative error of `model`; raise `BackendFailed` if it is not tolerated."""
        greatest = 0.0
        for batch, expected in zip(self._batches, self._expected, strict=True):
            try:
                got = model.run(batch)
            except Exception as error:  # a library raises its own errors
                rows = len(next(iter(batch.values())))
                raise BackendFailed(f"it fails on a batch of {rows}: {describe(error)}") from error
            error_of_batch, problem = greatest_error(
                expected, got, self._untouched.info.outputs, self.source.dtype
            )
            if problem is not None:
                raise BackendFailed(problem)
            greatest = max(greatest, error_of_batch)
        return greatest

    def _backend(self, name: ModelBackend) -> Backend:
        match = next((backend for backend in self.backends if backend.name is name), None)
        if match is None:
            raise self._failed(
                name,
                f"the files of this model have no torch module, {self.source.native} reads them",
            )
        return match

    def _failed(self, wanted: ModelBackend, message: str) -> ModelLoadFailed:
        remedy = "set spec.model.backend to Auto, or remove it"
        if is_narrow(self.source.dtype):
            remedy = f"{remedy}, or remove spec.model.dtype"
        return ModelLoadFailed(f"backend {wanted} cannot run the model: {message}: {remedy}")

    @cached_property
    def _program(self) -> tuple[Program, int] | BackendFailed:
        try:
            with compiling():
                return self.source.program()
        except BackendFailed as error:
            return error

    @cached_property
    def _untouched(self) -> Model:
        return self.source.untouched()

    @cached_property
    def _batches(self) -> list[Batch]:
        return batches(self._untouched)

    @cached_property
    def _expected(self) -> list[dict[str, Tensor]]:
        return [self._untouched.run(batch) for batch in self._batches]


def on_native(source: Source, state: ModelBackendState | None = None) -> Model:
    """Return the model on its own backend; its state has the error of a requested narrower type."""
    model = source.native_model()
    state = state or ModelBackendState(name=source.native)
    if source.precision_error is not None:
        known = {each.name: each for each in state.candidates}
        own = known.pop(state.name, BackendCandidate(name=state.name))
        measured = own.model_copy(update={"greatest_error": source.precision_error})
        state = state.model_copy(update={"candidates": (measured, *known.values())})
    return with_state(model, state)


def with_state(model: Model, state: ModelBackendState) -> Model:
    """Return `model`, whose info says which backend runs it."""
    model.info = replace(model.info, model_backend=state)
    return model


def sentence(state: ModelBackendState) -> str:
    """Return the choice in one line, for the log."""
    sizes = ", ".join(map(str, state.batch_sizes))
    return f"selected {state.name}: rows/s at {sizes} rows: " + "; ".join(
        f"{each.name} {each.message}"
        if each.message
        else f"{each.name} {', '.join(f'{rate:.0f}' for rate in each.rows_per_second)}"
        + ("" if each.greatest_error is None else f" (error {each.greatest_error:.1e})")
        for each in state.candidates
    )


def _build(backend: Backend, program: Program, folder: Path, threads: int) -> None:
    with compiling():
        backend.build(program, folder, threads)


def _without(name: str, message: str) -> BackendCandidate:
    return BackendCandidate(name=name, message=message)
