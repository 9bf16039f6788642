"""A request that another pod began continues with the tokens that it would have had there."""

from dataclasses import replace
from pathlib import Path

import pytest

from penstock_runtime.engine.continuous.limits import GenerationLimits
from penstock_runtime.engine.continuous.messages import (
    ChoiceFinished,
    FinishReason,
    Generate,
    Generated,
    Resumption,
    TokensEmitted,
)
from penstock_runtime.engine.continuous.sampling_params import SamplingParams
from penstock_runtime.engine.continuous.scheduler.scheduler import TokenScheduler
from penstock_runtime.engine.continuous.steps.options import DType, StepOptions
from penstock_runtime.models.decoders.open import open_step
from penstock_runtime.models.decoders.step import TorchStep
from tests.unit.runtime.engine.continuous.counting_step import LIMITS
from tests.unit.runtime.engine.continuous.driver import Driver, generate_request
from tests.unit.runtime.models.decoders.tiny_models import save

PARAMS = {
    "greedy": SamplingParams(max_tokens=24, temperature=0.0),
    "seeded": SamplingParams(max_tokens=24, temperature=1.3, top_p=0.9, seed=7),
    "penalties": SamplingParams(
        max_tokens=24, seed=9, repetition_penalty=1.4, frequency_penalty=1.2, presence_penalty=0.7
    ),
    "logprobs": SamplingParams(max_tokens=24, seed=3, logprobs=3),
    "bias": SamplingParams(max_tokens=24, seed=4, min_tokens=20, stop_ids=frozenset(range(64))),
}
PROMPT = [5, 9, 2, 40, 11]
CHOICES = 3


@pytest.fixture(scope="module")
def step(tmp_path_factory: pytest.TempPathFactory) -> TorchStep:
    folder: Path = save("llama", tmp_path_factory.mktemp("llama"))
    options = StepOptions(dtype=DType.FLOAT64, cache_bytes=1 << 20, block_tokens=8)
    return open_step(folder, options, "tiny")


def lived(step: TorchStep, request: Generate) -> Driver:
    """Return the driver of an engine that served `request` alone."""
    limits: GenerationLimits = replace(LIMITS, max_batch_size=4, max_batched_tokens=16)
    driver = Driver(step, TokenScheduler(step.info, limits))
    driver.engine.take(request, 0.0)
    driver.run()
    assert isinstance(driver.ends[request.id], Generated)
    return driver


def emitted(driver: Driver) -> dict[int, list[TokensEmitted]]:
    """Return the events with tokens, by choice."""
    events = [event for stepped in driver.posted for event in stepped.events]
    tokens = [event for event in events if isinstance(event, TokensEmitted)]
    return {
        choice: [event for event in tokens if event.choice == choice] for choice in range(CHOICES)
    }


def near(events: list[TokensEmitted], expected: list[TokensEmitted]) -> bool:
    """Return whether ids are equal, and log-probabilities as near as sums of another order are in float64."""
    return [event.tokens for event in events] == [event.tokens for event in expected] and all(
        logprob.chosen == pytest.approx(other.chosen, abs=1e-9)
        and [token for token, _ in logprob.top] == [token for token, _ in other.top]
        for event, wanted in zip(events, expected, strict=True)
        for logprob, other in zip(event.logprobs, wanted.logprobs, strict=True)
    )


@pytest.mark.parametrize("kind", PARAMS)
def test_a_resumed_request_has_the_tokens_and_log_probabilities_of_an_undisturbed_one(
    step: TorchStep, kind: str
) -> None:
    request = generate_request("a", PROMPT, params=PARAMS[kind], n=CHOICES)
    whole = lived(step, request)
    tokens = emitted(whole)
    for cut in ((0, 0, 0), (1, 5, 13), (20, 2, 9)):
        begun = tuple(
            Resumption(choice, tuple(whole.tokens["a", choice][: cut[choice]]))
            for choice in range(CHOICES)
        )
        resumed = lived(step, replace(request, resumed=begun))
        rest = emitted(resumed)
        for choice in range(CHOICES):
            assert near(rest[choice], tokens[choice][cut[choice] :]), (kind, cut, choice)
        assert resumed.finished == whole.finished


def test_only_the_choices_that_have_not_finished_are_resumed(step: TorchStep) -> None:
    request = generate_request("a", PROMPT, params=PARAMS["seeded"], n=CHOICES)
    whole = lived(step, request)
    begun = (Resumption(2, tuple(whole.tokens["a", 2][:23])),)
    resumed = lived(step, replace(request, resumed=begun))
    assert dict(resumed.tokens) == {("a", 2): whole.tokens["a", 2][23:]}
    assert resumed.finished == {("a", 2): ChoiceFinished("a", 2, FinishReason.LENGTH)}
