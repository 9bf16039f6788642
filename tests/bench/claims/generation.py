"""Text generation under each setting: one sequence at a time, static batches, continuous batching, and backend Auto."""

import json
import os
import time
from collections.abc import Iterator, Mapping
from contextlib import ExitStack
from dataclasses import replace
from typing import Final

from penstock_api import names
from tests.bench.claims.claims import ALONE, COMPILED, CONTINUOUS, STATIC, Sample, Setting
from tests.bench.fit.runtime import BenchRuntime, launched
from tests.bench.generation import http, models
from tests.bench.generation.workload import Work, WorkSize, work
from tests.bench.http.plan import BUILD, SERVER_CORE

CAP: Final = 16
SIZE: Final = WorkSize(prompt=128, answer=64, rounds=4, repeats=1)
SHAPE: Final = models.SHAPES[0]
STEPS, ROWS, SECONDS = (names.GENERATION_TERMS.index(term) for term in ("1*1", "1*d", "1*t"))
Sums = Mapping[int, tuple[float, ...]]


def measure(rounds: int) -> Iterator[Setting]:
    """Yield every setting of a Llama of 7 million parameters. Raises `RuntimeError` where a pod does not serve."""
    with ExitStack() as stack:
        torch = stack.enter_context(launched(_variables("Torch"), _limits(), SERVER_CORE))
        auto = stack.enter_context(launched(_variables(None), _limits(), SERVER_CORE))
        ways = [
            (ALONE, torch, "Torch", 1, False),
            (STATIC, torch, "Torch", CAP, True),
            (CONTINUOUS, torch, "Torch", CAP, False),
            (COMPILED, auto, "Auto", CAP, False),
        ]
        samples: dict[str, list[Sample]] = {name: [] for name, *_ in ways}
        for number in range(rounds):
            for name, pod, _, cap, waves in ways if number % 2 == 0 else reversed(ways):
                pod.set_cap(cap)
                samples[name].append(_sample(pod, waves=waves))
    for name, _, backend, cap, waves in ways:
        detail = f"{backend}, cap {cap}{', the next batch after the last sequence' if waves else ''}"  # fmt: skip
        yield Setting("Llama of 7M", name, detail, tuple(samples[name]), "tokens/s")


def _variables(compute: str | None) -> dict[str, str]:
    folder = models.write(SHAPE, BUILD / "models")
    http.give_tokenizer(folder, models.VOCABULARY)
    claim = {"claimName": "bench", "path": "."}
    source = {"type": "PersistentVolumeClaim", "persistentVolumeClaim": claim}
    chosen = {} if compute is None else {"PENSTOCK_COMPUTE_BACKEND": compute}
    return {
        "HOME": os.environ.get("HOME", "/"),
        "PENSTOCK_MODEL": json.dumps({"name": "bench", "task": "TextGeneration", "source": source}),
        "PENSTOCK_MODEL_FOLDER": str(folder),
        "PENSTOCK_DTYPE": "float32",
        "PENSTOCK_PLACEMENT": "Thread",
        **chosen,
    }


def _limits() -> dict[str, object]:
    return {**http.LIMITS, "maxBatchSize": CAP}


def _sample(pod: BenchRuntime, *, waves: bool) -> Sample:
    whole = work("mixed", CAP, models.VOCABULARY, SIZE)
    before, began = _sums(pod), time.monotonic()
    seconds = sum(http.run(pod.client, part) for part in (_waves(whole) if waves else [whole]))
    after, elapsed = _sums(pod), time.monotonic() - began
    steps, rows, busy = (_grown(before, after, term) for term in (STEPS, ROWS, SECONDS))
    return Sample(
        requests=len(whole.requests),
        seconds=seconds,
        done=float(whole.counted),
        batch_size=rows / max(steps, 1.0),
        batch_milliseconds=1000 * busy / max(steps, 1.0),
        use=min(busy / elapsed, 1.0),
    )


def _waves(whole: Work) -> list[Work]:
    """Return the requests in static batches of the cap."""
    requests = whole.requests
    return [replace(whole, requests=requests[at : at + CAP]) for at in range(0, len(requests), CAP)]


def _sums(pod: BenchRuntime) -> Sums:
    state = pod.state()
    both = (state.previous_generation_curve, state.generation_curve)
    return {sums.epoch: sums.sums for sums in both if sums is not None}


def _grown(before: Sums, after: Sums, term: int) -> float:
    return sum(
        sums[term] - (before[epoch][term] if epoch in before else 0.0)
        for epoch, sums in after.items()
    )
