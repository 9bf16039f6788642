"""A parameter that a request leaves out is the model's."""

import json
from dataclasses import replace
from types import SimpleNamespace
from typing import Any

import pytest

from penstock_runtime.engine.continuous.sampling_params import SamplingDefaults, SamplingParams
from penstock_runtime.models.decoders.load import SAMPLING_RANGES
from penstock_runtime.protocols.openai.sampling import SamplingRequest, Terms, sampling
from penstock_runtime.protocols.openai.wire.base import read
from penstock_runtime.protocols.openai.wire.completion import CompletionBody
from penstock_runtime.serving.auth.callers import ANYBODY
from tests.unit.runtime.engine.continuous.counting_step import INFO

MODEL = SamplingDefaults(temperature=0.6, top_p=0.9, top_k=20, min_p=0.1, repetition_penalty=1.1)


def params(body: dict[str, Any], defaults: SamplingDefaults) -> SamplingParams:
    serving: Any = SimpleNamespace(info=replace(INFO, sampling=defaults), own_ends=frozenset())
    content = json.dumps({"prompt": "a", **body}).encode()
    return sampling(read(CompletionBody, content), Terms(serving, ANYBODY), SamplingRequest(None))


def chosen(given: SamplingParams) -> SamplingDefaults:
    return SamplingDefaults(*(getattr(given, name) for name in SAMPLING_RANGES))


def test_a_request_without_sampling_parameters_has_the_models() -> None:
    assert chosen(params({}, MODEL)) == MODEL
    assert chosen(params(dict.fromkeys(SAMPLING_RANGES), MODEL)) == MODEL
    assert params({}, replace(MODEL, top_k=-1)).top_k == 0


def test_a_request_overrides_the_models_parameters_by_neutral_values_too() -> None:
    neutral = {"temperature": 1, "top_p": 1, "top_k": 0, "min_p": 0, "repetition_penalty": 1}
    assert chosen(params(neutral, MODEL)) == SamplingDefaults()
    assert params({"temperature": 0}, MODEL).greedy


@pytest.mark.parametrize("name", SAMPLING_RANGES)
def test_a_request_can_have_every_parameter_that_a_model_can_have(name: str) -> None:
    for value in SAMPLING_RANGES[name]:
        params({name: value}, MODEL)
