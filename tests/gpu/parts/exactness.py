"""Exactness of generation on the device, for eight families of models.

Each family lives through random schedules with arrivals, preemption, prefix hits, cancellations and a changing cap. In
float64 every id must be that of transformers' `generate()` on the CPU; in bfloat16 and float32 every token must be as
good as the reference's best, within twice the measured rounding of the device. Replayed decode steps must give the
logits of plain ones.
"""

import multiprocessing
import time
from collections.abc import Iterator
from concurrent.futures import ProcessPoolExecutor, as_completed
from dataclasses import asdict, dataclass
from functools import partial
from pathlib import Path

import torch

from penstock_runtime.engine.continuous.opening import open_runner
from penstock_runtime.engine.continuous.steps.options import Compute, DType, StepOptions
from penstock_runtime.engine.continuous.steps.runner import Runner
from penstock_runtime.models.decoders.open import open_step
from penstock_runtime.models.decoders.step import TorchStep
from penstock_runtime.models.decoders.torch_decoders.cuda_graph_decoder import CudaGraphDecoder
from penstock_runtime.models.decoders.torch_decoders.self_check import difference, tolerance
from tests.gpu.plan import Setting
from tests.gpu.record import Record
from tests.gpu.recording import recorded
from tests.unit.runtime.engine.continuous.scenarios import Scenario, Tally, prompts, references
from tests.unit.runtime.models.decoders.decode_steps import BLOCK_TOKENS, decodes, fill
from tests.unit.runtime.models.decoders.teacher import accepts, measured_eps, teacher
from tests.unit.runtime.models.decoders.tiny_models import KNOWN, save

WORKERS = 4
"""Processes that share the device; nothing here is timed."""
CACHE_BYTES = 1 << 20
CONTEXTS = ([5, 60, 17], [3, 9, 30, 63], [0], [7, 8, 50, 1, 2])
"""Positions of the rows of the steps whose replay is compared."""
REPLAY_ERROR = {torch.float64: 1e-10, torch.float32: 1e-4}
"""Tolerated difference of a replay relative to the largest logit; it runs the same kernels over other padding."""


@dataclass(frozen=True, slots=True)
class Job:
    """A family in a dtype, over some schedules."""

    family: str
    dtype: DType
    seeds: int
    turns: int


@dataclass(frozen=True, slots=True)
class Lived:
    """What a job found."""

    answers: int
    wrong: int
    same: int
    """Answers whose ids are all those of float64."""
    eps: float
    """Largest movement of a logit by the dtype; 0 in float64."""
    replay_error: float
    replays_kept: int
    """Recorded shapes at the end; 0: recording was disabled."""
    tally: Tally


def run(setting: Setting, record: Record) -> None:
    """Run all jobs, float64 first."""
    record.figure("families", len(_families(setting)), ", ".join(_families(setting)))
    total = Tally()
    for job, lived in _lives(setting, record):
        name = f"{job.family} {job.dtype}"
        rule = "ids are those of generate()" if job.dtype is DType.FLOAT64 else "every token within 2 eps"  # fmt: skip
        detail = f"{lived.answers - lived.wrong} of {lived.answers} answers, {lived.same} equal float64's, eps {lived.eps:.1e}"
        record.check(f"{name}: {rule}", holds=lived.answers > 0 and not lived.wrong, detail=detail)
        bound = REPLAY_ERROR.get(getattr(torch, job.dtype), tolerance(getattr(torch, job.dtype)))
        record.check(
            f"{name}: recorded steps give the logits of plain ones",
            holds=lived.replays_kept > 0 and lived.replay_error <= bound,
            detail=f"{lived.replays_kept} shapes, largest difference {lived.replay_error:.1e}",
        )
        total = Tally(**{name: count + getattr(total, name) for name, count in asdict(lived.tally).items()})  # fmt: skip
    for met in ("preemptions", "prefix_hit_tokens", "cancelled", "swapped_blocks"):
        record.check(f"the schedules had {met.replace('_', ' ')}", holds=getattr(total, met) > 0, detail=f"{getattr(total, met)}")  # fmt: skip


def _families(setting: Setting) -> list[str]:
    return list(KNOWN) if not setting.rehearsal else ["llama", "gpt2"]


def _jobs(setting: Setting) -> list[Job]:
    seeds, turns = setting.size(3, 2), setting.size(30, 14)
    jobs = [Job(family, DType.FLOAT64, seeds, turns) for family in _families(setting)]
    if setting.rehearsal:
        return [*jobs, Job("llama", DType.BFLOAT16, 1, 8)]
    for dtype in (DType.BFLOAT16, DType.FLOAT32):
        jobs += [Job(family, dtype, 2, 15) for family in _families(setting)]
    return jobs


def _lives(setting: Setting, record: Record) -> Iterator[tuple[Job, Lived]]:
    """Yield each job and what it found, as they end; a job that raises is a failed section."""
    if setting.rehearsal:
        for job in _jobs(setting):
            with record.section(f"{job.family} {job.dtype}"):
                yield job, live(job, setting)
        return
    spawn = multiprocessing.get_context("spawn")
    with ProcessPoolExecutor(WORKERS, mp_context=spawn) as pool:
        pending = {pool.submit(live, job, setting): job for job in _jobs(setting)}
        for done in as_completed(pending, timeout=setting.deadline - time.monotonic()):
            job = pending[done]
            with record.section(f"{job.family} {job.dtype}"):
                yield job, done.result()


def live(job: Job, setting: Setting) -> Lived:
    """Run the schedules of a job."""
    folder = setting.models / f"tiny-{job.family}-{job.dtype}"
    save(job.family, folder)
    options = StepOptions(
        Compute.TORCH, job.dtype, block_tokens=BLOCK_TOKENS, max_running=20,
        cache_bytes=CACHE_BYTES, host_cache_bytes=CACHE_BYTES,
    )  # fmt: skip
    with recorded(setting):
        load = partial(open_step, folder, options, "tiny", setting.device)
        step, runner = open_runner(load, depth=1)
    try:
        return _lived(job, folder, step, runner, setting.device)
    finally:
        runner.close()


def _lived(job: Job, folder: Path, step: TorchStep, runner: Runner, device: torch.device) -> Lived:
    dtype = getattr(torch, job.dtype)
    exact = dtype == torch.float64
    eps = 0.0 if exact else measured_eps(folder, dtype, device=device)
    judge = None if exact else teacher(folder, dtype, device)
    expected, tally = references(folder, torch.float64), Tally()
    answers = wrong = same = 0
    for seed in range(job.seeds):
        runner.depth = seed % 2
        scenario = Scenario(step, seed, runner)
        scenario.live(job.turns)
        scenario.check_ends()
        scenario.add_to(tally)
        for which, tokens, ids in scenario.answers():
            equal = ids == list(expected[which][:tokens])
            good = equal or (judge is not None and accepts(judge, prompts()[which], ids, eps))
            answers, wrong, same = answers + 1, wrong + (not good), same + equal
    error, kept = replays(step)
    return Lived(answers, wrong, same, eps, error, kept, tally)


def replays(step: TorchStep) -> tuple[float, int]:
    """Return the largest difference of a replay from a plain step, and the number of recorded shapes."""
    decoder = step._decoder
    if not isinstance(decoder, CudaGraphDecoder):
        return 0.0, 0
    fill(step)
    worst, blocks = 0.0, step.info.kv.blocks
    for seed, contexts in enumerate(CONTEXTS):
        packed = decodes(contexts, seed, min(60, blocks))
        decoder.forward(packed)  # records the shape
        got = decoder.forward(packed).clone()
        worst = max(worst, difference(got, decoder._plain.forward(packed)))
    return worst, len(decoder._replays)
