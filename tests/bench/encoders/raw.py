"""Rates of raw torch on the same rows and one core, as the upper limits for servers.

Run as `python -m tests.bench.encoders.raw NAME FOLDER SECONDS` on the server's core; it prints rows a second in JSON, by
wall-clock and by processor time.
"""

import itertools
import json
import sys
import time
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any

import numpy as np
import torch
import transformers

from penstock_api.types.model import Task
from penstock_runtime.models.device.prepacked_linear import prepack
from penstock_runtime.models.encoders.directory import IDS, MASK
from penstock_runtime.models.encoders.load import load_encoder
from penstock_runtime.request import Tensor
from tests.bench.encoders.subjects import BATCH, NUMBER, SUBJECTS, Subject

CPU = torch.device("cpu")
Run = Callable[[dict[str, Tensor]], object]
Rates = tuple[float, float]
"""Rows a second by wall-clock time, and by processor time, which is robust on a shared machine."""
ROUNDS = 2
"""Interleaved rounds of all variants within one call."""


def limits(subject: Subject, folder: Path, seconds: float) -> dict[str, dict[str, float]]:
    """Return the rows a second of each variant, by wall-clock and by processor time, as medians of interleaved rounds."""
    transformers.utils.logging.disable_progress_bar()  # type: ignore[no-untyped-call]
    torch.set_num_threads(1)
    untouched = _transformers(folder, prepacked=False)
    arrival = [list(range(at, at + BATCH)) for at in range(0, NUMBER, BATCH)]
    by_length = sorted(range(NUMBER), key=lambda row: subject.lengths[row])
    sorted_ = [by_length[at : at + BATCH] for at in range(0, NUMBER, BATCH)]
    alone = [[row] for row in range(NUMBER)]
    prepacked = _transformers(folder, prepacked=True)
    packed = load_encoder(folder, Task.EMBEDDING).run
    ways: dict[str, tuple[Run, list[list[int]]]] = {
        "untouched": (untouched, arrival),
        "untouched, sorted by length": (untouched, sorted_),
        "untouched, one row": (untouched, alone),
        "prepacked": (prepacked, arrival),
        "prepacked, sorted by length": (prepacked, sorted_),
        "packed": (packed, arrival),
        "packed, one row": (packed, alone),
    }
    seen: dict[str, list[Rates]] = {name: [] for name in ways}
    for _ in range(ROUNDS):
        for name, (run, batches) in ways.items():
            seen[name].append(_rate(run, [subject.inputs(order) for order in batches], seconds))
    return {
        kind: {name: round(float(np.median([rate[at] for rate in rates])), 1) for name, rates in seen.items()}
        for at, kind in enumerate(("clock", "processor"))
    }  # fmt: skip


def _rate(run: Run, batches: list[dict[str, Tensor]], seconds: float) -> Rates:
    run(batches[0])
    rows, began, began_cpu = 0, time.perf_counter(), time.process_time()
    for batch in _again(batches):
        run(batch)
        rows += len(batch[IDS])
        took = time.perf_counter() - began
        if took >= seconds:
            return rows / took, rows / (time.process_time() - began_cpu)
    return 0.0, 0.0


def _again(batches: list[dict[str, Tensor]]) -> Iterator[dict[str, Tensor]]:
    return itertools.cycle(batches)


def _transformers(folder: Path, *, prepacked: bool, device: torch.device = CPU) -> Run:
    model: Any = transformers.AutoModel.from_pretrained(folder, dtype=torch.float32).eval()
    model.requires_grad_(requires_grad=False).to(device)
    if prepacked:
        prepack(model)

    def run(inputs: dict[str, Tensor]) -> object:
        ids, mask = (torch.from_numpy(inputs[name]).to(device) for name in (IDS, MASK))
        with torch.inference_mode():
            hidden = model(input_ids=ids, attention_mask=mask).last_hidden_state
            real = mask[:, :, None].float()
            pooled = (hidden * real).sum(1) / real.sum(1)
            return torch.nn.functional.normalize(pooled, dim=1).cpu()

    return run


if __name__ == "__main__":
    chosen = next(candidate for candidate in SUBJECTS if candidate.name == sys.argv[1])
    print(json.dumps(limits(chosen, Path(sys.argv[2]), float(sys.argv[3]))))
