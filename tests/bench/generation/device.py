"""Decode benchmark on a device: `python -m tests.bench.generation.device`, a random 1B-class Llama at batch 1, 8 and 64.

It reports the share of the memory bandwidth (of a copy in the same run) that the minimal reads of each step use, which
are all weights and the rows' keys and values, and tokens a second compared with transformers' `generate_batch`.
"""

import argparse
import gc
import json
import sys
from dataclasses import asdict, dataclass, replace
from pathlib import Path

import torch

from penstock_runtime.engine.continuous.messages import Stepped, StepReport
from penstock_runtime.engine.model import describe
from penstock_runtime.models.device.device import backend_of, choose_device
from tests.bench.generation import models
from tests.bench.generation.peers import penstock, transformers_batch
from tests.bench.generation.roofline import Decoding, Footprint, bandwidth, decoding, footprint
from tests.bench.generation.workload import Work, WorkSize, work

OUT = Path("build/bench/generation-device.json")
MODELS = Path("build/bench/models")
BATCHES = (1, 8, 64)
SIZE = WorkSize(prompt=8, answer=256, rounds=1, repeats=3)
QUICK = WorkSize(prompt=8, answer=32, rounds=1, repeats=1)


class RecordedPeer(penstock.Peer):
    """This project's engine, which records the steps of its last work."""

    def run(self, work: Work) -> float:
        """Run the work and record its steps."""
        self.steps: list[StepReport] = []
        return super().run(work)

    def _take(self, stepped: Stepped) -> None:
        super()._take(stepped)
        if stepped.step is not None:
            self.steps.append(stepped.step)


@dataclass(frozen=True)
class Line:
    """Figures of one batch size."""

    batch: int
    decoding: Decoding | None
    share_of_bandwidth: float | None
    tokens_per_second: float
    """Rate over the whole work including prompts, like the peer's."""
    peers: float | None
    """Tokens a second of `generate_batch`."""

    @property
    def ratio(self) -> float | None:
        """Return our rate relative to the peer's."""
        return self.tokens_per_second / self.peers if self.peers else None


def line(
    ours: RecordedPeer, batch: int, size: WorkSize, read: Footprint, gb_per_second: float
) -> Line:
    """Measure this project's engine at `batch`."""
    requested = _work(batch, size)
    ours.run(requested)  # every shape's first step is its slowest
    best = min(ours.run(requested) for _ in range(size.repeats))
    decoded = decoding(ours.steps, batch, read)
    share = decoded.gb_per_second / gb_per_second if decoded else None
    return Line(batch, decoded, share, requested.counted / best, None)


def peers(folder: Path, dtype: str, device: str, size: WorkSize) -> list[float] | str:
    """Return tokens a second of `generate_batch` at each of BATCHES, or the error."""
    try:
        peer, rates = transformers_batch.Peer(folder, dtype, device), list[float]()
        for batch in BATCHES:
            requested = _work(batch, size)
            times = [peer.run(requested) for _ in range(1 + size.repeats)][1:]
            rates.append(requested.counted / min(filter(None, times)))
    except Exception as error:  # noqa: BLE001  a library may raise anything on unsupported hardware
        return describe(error)
    return rates


def _work(batch: int, size: WorkSize) -> Work:
    return work("decode", batch, models.VOCABULARY, size)


def measure(folder: Path, dtype: str, device: torch.device, size: WorkSize) -> dict[str, object]:
    """Return every figure as a JSON object."""
    gb_per_second = bandwidth(device)
    read = footprint(folder, getattr(torch, dtype))
    ours = RecordedPeer(folder, dtype, device)
    lines = [line(ours, batch, size, read, gb_per_second) for batch in BATCHES]
    decoder = ours._step._decoder
    about = f"{ours.about}, {type(decoder).__name__}, {decoder.captures} captures"
    del ours, decoder
    gc.collect()
    if device.type == "cuda":
        torch.cuda.empty_cache()
    theirs = peers(folder, dtype, str(device), size)
    if not isinstance(theirs, str):
        lines = [
            replace(own_line, peers=rate) for own_line, rate in zip(lines, theirs, strict=True)
        ]
    return {
        "device": backend_of(device),
        "dtype": dtype,
        "model": folder.name,
        "about": about,
        "bandwidth_gb_per_second": gb_per_second,
        "footprint": asdict(read),
        "lines": [{**asdict(own_line), "ratio": own_line.ratio} for own_line in lines],
        "peer_absent": theirs if isinstance(theirs, str) else None,
    }


def main() -> int:
    """Run the bench and write its figures."""
    parser = argparse.ArgumentParser(
        prog="python -m tests.bench.generation.device", description=__doc__
    )
    parser.add_argument("--device", type=torch.device, default=choose_device())
    parser.add_argument("--model", choices=models.DEVICE_SHAPES, default="1B")
    parser.add_argument("--dtype", default="bfloat16")
    parser.add_argument("--quick", action="store_true")
    args = parser.parse_args()
    folder = models.write(models.DEVICE_SHAPES[args.model], MODELS)
    size = QUICK if args.quick else SIZE
    report = json.dumps(measure(folder, args.dtype, args.device, size), indent=1)
    OUT.parent.mkdir(parents=True, exist_ok=True)
    OUT.write_text(report)
    sys.stdout.write(f"{report}\nfigures in {OUT}\n")
    return 0


if __name__ == "__main__":
    sys.exit(main())
