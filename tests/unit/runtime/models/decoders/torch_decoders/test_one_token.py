"""Batch invariance: the bits of a token's log-probability depend on no batch mate, chunk, prefix hit or preemption."""

from dataclasses import replace
from pathlib import Path

import numpy as np
import pytest

from penstock_api.pod_contract import Discipline
from penstock_runtime.engine.continuous.limits import GenerationLimits, Preemption
from penstock_runtime.engine.continuous.messages import SchedulerReport, TokensEmitted
from penstock_runtime.engine.continuous.sampling_params import SamplingParams
from penstock_runtime.engine.continuous.scheduler.preemption import PreemptionCosts
from penstock_runtime.engine.continuous.scheduler.scheduler import TokenScheduler
from penstock_runtime.engine.continuous.steps.options import Compute, DType, StepOptions
from penstock_runtime.models.decoders.open import open_step
from penstock_runtime.models.decoders.openvino.backend import computes_bfloat16
from penstock_runtime.models.decoders.step import TorchStep
from penstock_runtime.models.decoders.torch_decoders.one_token import OneTokenDecoder
from tests.unit.runtime.engine.continuous.driver import Driver, generate_request
from tests.unit.runtime.engine.continuous.scenarios import RECOMPUTE, SWAP
from tests.unit.runtime.models.decoders.tiny_models import VOCABULARY, save

OWN = [
    np.random.default_rng(seed).integers(0, VOCABULARY, length).tolist()
    for seed, length in enumerate([30, 3, 17, 70, 8, 1])
]
STEM = OWN[3][:64]
"""Eight blocks, two of OpenVINO's."""
PROMPTS = [STEM + OWN[0], *OWN[1:]]
PARAMS = SamplingParams(max_tokens=12, temperature=0.9, top_p=0.95, seed=11, logprobs=0)
LIMITS = GenerationLimits(
    generation=1,
    max_batch_size=6,
    max_batched_tokens=64,
    max_queue_depth=100,
    discipline=Discipline.PRIORITY,
    preemption=Preemption.LOWER_PRIORITY,
)


BACKENDS = [
    (Compute.TORCH, DType.FLOAT32, "gemma2"),
    (Compute.OPENVINO, DType.FLOAT32, "gemma3"),
    (Compute.OPENVINO, DType.BFLOAT16, "llama"),
]


@pytest.fixture(scope="module", params=BACKENDS, ids="-".join)
def step(request: pytest.FixtureRequest, tmp_path_factory: pytest.TempPathFactory) -> TorchStep:
    compute, dtype, family = request.param
    if (compute, dtype) == (Compute.OPENVINO, DType.BFLOAT16) and not computes_bfloat16():
        pytest.skip("this processor has no instructions for bfloat16")
    folder: Path = save(family, tmp_path_factory.mktemp(family))
    options = StepOptions(
        compute,
        dtype,
        cache_bytes=1 << 20,
        host_cache_bytes=1 << 18,
        block_tokens=8,
        batch_invariant=True,
    )
    return open_step(folder, options, "tiny")


Told = dict[str, list[tuple[int, float]]]
"""By request: every token with the bits of its log-probability."""


def run(
    step: TorchStep,
    names: list[int],
    limits: GenerationLimits = LIMITS,
    positions: int | None = None,
    costs: PreemptionCosts | None = None,
) -> tuple[Told, SchedulerReport]:
    """Return the emitted tokens with their logprobs, and the scheduler's report."""
    kv = step.info.kv
    blocks = kv.blocks if positions is None else positions // kv.block_tokens
    info = replace(step.info, kv=replace(kv, blocks=blocks))
    scheduler = TokenScheduler(info, limits, costs)
    driver = Driver(step, scheduler)
    for name in names:
        message = generate_request(str(name), PROMPTS[name], params=PARAMS, priority=9 - name)
        driver.engine.take(message, driver.now)
        driver.turn()
    driver.run()
    answers: Told = {}
    for stepped in driver.posted:
        for event in stepped.events:
            if isinstance(event, TokensEmitted):
                bits = [logprob.chosen for logprob in event.logprobs]
                answers.setdefault(event.id, []).extend(zip(event.tokens, bits, strict=True))
    return answers, scheduler.report()


EVERYONE = list(range(len(PROMPTS)))
CRAMPED = 160
"""Positions: half of what everyone needs."""


@pytest.fixture(scope="module")
def alone(step: TorchStep) -> Told:
    answers: Told = {}
    for name in EVERYONE:
        own, report = run(step, [name])
        assert (report.prefix_hit_tokens, report.preemptions) == (0, 0)
        answers |= own
    return answers


def test_batch_mates_and_prefix_hits_do_not_show(step: TorchStep, alone: Told) -> None:
    assert isinstance(step._decoder, OneTokenDecoder)
    answers, report = run(step, EVERYONE)
    assert answers == alone
    assert (report.prefix_hit_tokens, report.preemptions) == (len(STEM), 0)


def test_chunks_do_not_show(step: TorchStep, alone: Told) -> None:
    answers, _ = run(step, EVERYONE, replace(LIMITS, max_batched_tokens=7))
    assert answers == alone


def test_preemption_by_swap_does_not_show(step: TorchStep, alone: Told) -> None:
    answers, report = run(step, EVERYONE, positions=CRAMPED, costs=SWAP)
    assert answers == alone
    assert report.swapped_blocks > 0


def test_preemption_by_recompute_does_not_show(step: TorchStep, alone: Told) -> None:
    answers, report = run(step, EVERYONE, positions=CRAMPED, costs=RECOMPUTE)
    assert answers == alone
    assert (report.swapped_blocks, report.recomputed_tokens > 0) == (0, True)
