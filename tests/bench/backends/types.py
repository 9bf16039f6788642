"""One process of the bench: a subject in every data type that its backends have, measured in turns; prints figures as JSON."""

import json
import sys
import time
from pathlib import Path
from typing import Any, Final

from penstock_api.types.model import ModelBackend
from penstock_runtime.engine.continuous.steps.options import DType
from penstock_runtime.engine.model import Model, ModelLoadFailed
from penstock_runtime.models.backends.samples import BATCH_SIZES, random_batch
from penstock_runtime.models.backends.timing import rates
from penstock_runtime.models.load import ModelOptions, load
from tests.bench.backends.subjects import SUBJECTS

BACKENDS: Final = (ModelBackend.EAGER, ModelBackend.OPENVINO, ModelBackend.ONNX_RUNTIME)
TYPES: Final = (DType.AUTO, DType.BFLOAT16, DType.FLOAT16, DType.INT8)


def main(arguments: list[str]) -> None:
    """Load every backend in every type that it has, measure them, and print figures."""
    name, threads, root, cache, seconds = arguments
    subject = next(each for each in SUBJECTS if each.name == name)
    models: dict[str, Model] = {}
    figures: dict[str, Any] = {}
    for dtype in TYPES:
        for backend in BACKENDS:
            label = f"{backend} {'float32' if dtype is DType.AUTO else dtype}"
            options = ModelOptions(int(threads), dtype, private_folder=Path(cache))
            try:
                models[label] = load(subject.spec(backend), name, Path(root), options)
            except ModelLoadFailed as error:
                figures[label] = {"reason": str(error)}
            else:
                figures[label] = {"error": _error(models[label])}
    info = next(iter(models.values())).info
    batches = [random_batch(info, rows, seed=1) for rows in BATCH_SIZES]
    for label, series in rates(models, batches, time.perf_counter, float(seconds)).items():
        figures[label]["rows_per_second"] = list(series)
    print(json.dumps(figures))


def _error(model: Model) -> float | None:
    state = model.info.model_backend
    errors = [each.greatest_error for each in state.candidates] if state is not None else []
    return next(iter(errors), None)


if __name__ == "__main__":
    main(sys.argv[1:])
