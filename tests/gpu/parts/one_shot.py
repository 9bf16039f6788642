"""One-shot batches on the device: the memory bound, transfers, CUDA graphs, and rates compared with raw torch."""

import time
from collections import Counter
from statistics import median

import numpy as np
import torch
from torch.profiler import ProfilerActivity, profile

from penstock_api.types.model import Task
from penstock_runtime.engine.model import Model
from penstock_runtime.models.device.cuda_graphs import Graphs
from penstock_runtime.models.device.staging import DeviceStaging
from penstock_runtime.models.encoders.directory import IDS, MASK
from penstock_runtime.models.encoders.load import load_encoder
from penstock_runtime.models.python_factory import load_from_factory
from penstock_runtime.models.torch_model import TorchModel, Wrapping
from penstock_runtime.request import Tensor
from tests.bench.encoders.raw import Run, _rate, _transformers
from tests.bench.encoders.subjects import EMBEDDER, ENCODER, NUMBER, SUBJECTS, Subject
from tests.gpu.compiled import compare_compiled
from tests.gpu.memory import measure_memory
from tests.gpu.modules import BURNER, FEATURES
from tests.gpu.plan import Setting
from tests.gpu.record import Record
from tests.gpu.recording import recorder_for

BATCHES = (1, 8, 32, 64)
RATE = 0.95
"""Target of the rate relative to raw torch on the same device."""
GRAPH_ROWS = (1, 2, 3, 5, 8, 13, 31, 32, 64, 65)
GRAPH_ERROR = 1e-3
"""Tolerated difference of a replay from the plain call, whose other number of rows may select other kernels."""
COMPILE_SECONDS = 25.0
"""torch.compile does not start with less time left."""


def run(setting: Setting, record: Record) -> None:
    """Measure memory, graphs, transfers and rates, then the compilers, which take longest."""
    with record.section("memory"):
        measure_memory(setting, record)
    with record.section("graphs"):
        _graphs("module", _module(setting), setting, record)
    encoders: dict[str, Model] = {}
    for subject in setting.size(SUBJECTS, SUBJECTS[:1]):
        with record.section(subject.name):
            folder = subject.folder(setting.models)
            encoders[subject.name] = model = load_encoder(folder, Task.EMBEDDING)
            if setting.on_cuda and isinstance(model, Wrapping):
                _graphs(subject.name, model.inner, setting, record)
            raw = _transformers(folder, prepacked=False, device=setting.device)
            _rates(subject, model, raw, setting, record)
    if ENCODER.name in encoders:  # whose rows have one length, so that a batch is one run
        with record.section("transfers"):
            _transfers(ENCODER, encoders[ENCODER.name], setting, record)
    with record.section("compilers"):
        if setting.deadline - time.monotonic() > setting.size(COMPILE_SECONDS, 0.0):
            _compiled(encoders, setting, record)
        else:
            record.leave_out("torch.compile and Torch-TensorRT", "no time is left")


def _compiled(encoders: dict[str, Model], setting: Setting, record: Record) -> None:
    if setting.rehearsal:
        model = _module(setting)
        inputs = {"INPUT": _arrays(model, 4)[0]}
        compare_compiled("module at 4", model, [inputs], setting, record)
        return
    batches = [EMBEDDER.inputs(list(range(at, at + 32))) for at in (0, 32)]
    compare_compiled("embedder at 32", encoders[EMBEDDER.name], batches, setting, record)


def _module(setting: Setting) -> TorchModel:
    size = setting.size("1024", "16")
    arguments = {"width": size, "tokens": "4", "depth": "8", "dtype": "float32"}
    model = load_from_factory(BURNER, arguments)
    assert isinstance(model, TorchModel)
    if not setting.on_cuda:
        model._run = Graphs(model._named, recorder_for(setting))
    return model


def _graphs(name: str, model: TorchModel, setting: Setting, record: Record) -> None:
    """Compare replays with the plain call for several numbers of rows, and count what was recorded."""
    worst = 0.0
    for rows in GRAPH_ROWS:
        arrays = _arrays(model, rows)
        with torch.inference_mode():
            plain = model._staging.run(model._named, arrays)
        inputs = {spec.name: array for spec, array in zip(model.info.inputs, arrays, strict=True)}
        for _ in range(2):  # the first records the bucket
            got = model.run(inputs)
        for output, values in plain.items():
            scale = max(1.0, float(np.abs(values).max()))
            difference = np.abs(np.subtract(values, got[output])).max()
            worst = max(worst, float(difference) / scale)
    graphs = model._run
    kept = len(graphs._replays) if isinstance(graphs, Graphs) else 0
    record.check(
        f"{name}: graphs by bucket give the plain call's outputs",
        holds=kept > 0 and worst <= GRAPH_ERROR,
        detail=f"{kept} buckets recorded, largest difference {worst:.1e}",
    )


def _arrays(model: TorchModel, rows: int) -> list[Tensor]:
    """Return random inputs: numbers, or texts of 32 tokens without padding."""
    random = np.random.default_rng(rows)
    if model.info.inputs[0].name != IDS:
        return [random.standard_normal((rows, FEATURES)).astype(np.float32)]
    ids = random.integers(5, 500, (rows, 32))
    return [ids, np.ones_like(ids)]


def _rates(subject: Subject, model: Model, raw: Run, setting: Setting, record: Record) -> None:
    """Compare rows a second with raw torch's at each batch size, in interleaved rounds."""
    seconds = setting.size(0.4, 0.02)
    for batch in BATCHES:
        batches = [subject.inputs(list(range(at, at + batch))) for at in range(0, NUMBER, batch)][
            : setting.size(NUMBER, 1)
        ]
        expected, got = raw(batches[0]), next(iter(model.run(batches[0]).values()))
        error = float(np.abs(np.asarray(expected) - got).max())
        rounds = [(_rate(model.run, batches, seconds)[0], _rate(raw, batches, seconds)[0]) for _ in range(setting.size(3, 1))]  # fmt: skip
        ours, theirs = (median(rates) for rates in zip(*rounds, strict=True))
        record.figure(f"{subject.name} at {batch}: rows a second", ours, f"raw torch {theirs:,.0f}, difference {error:.0e}")  # fmt: skip
        record.figure(f"{subject.name} at {batch}: over raw torch", ours / theirs, "", RATE)
        record.series.setdefault(subject.name, {})[batch] = [ours, theirs]


def _transfers(subject: Subject, model: Model, setting: Setting, record: Record) -> None:
    """Count the synchronizations and copies of one batch by the profiler."""
    staging = model.inner._staging if isinstance(model, Wrapping) else None
    if not isinstance(staging, DeviceStaging):
        record.leave_out(f"{subject.name}: transfers", "there is no CUDA device")
        return
    inputs = subject.inputs(list(range(8)))
    model.run({IDS: inputs[IDS], MASK: inputs[MASK]})
    own = staging._stream is not None and staging._stream != torch.cuda.default_stream()
    record.check(f"{subject.name}: batches run on a stream of the model's own", holds=own)
    with profile(activities=[ProfilerActivity.CPU, ProfilerActivity.CUDA]) as seen:
        model.run(inputs)
    names = Counter(event.name for event in seen.events())
    if not any(name.startswith("cuda") for name in names):
        record.leave_out(f"{subject.name}: transfers", "the profiler sees no CUDA calls here")
        return
    waits = names["cudaStreamSynchronize"] + names["cudaEventSynchronize"]
    copies = {name: count for name, count in names.items() if name.startswith("Memcpy")}
    pageable = sum(count for name, count in copies.items() if "Pageable" in name)
    record.figure(f"{subject.name}: synchronizations in a batch", waits, "", 1, at_most=True)
    record.figure(f"{subject.name}: copies through pageable memory", pageable, f"of {copies}", 0, at_most=True)  # fmt: skip
