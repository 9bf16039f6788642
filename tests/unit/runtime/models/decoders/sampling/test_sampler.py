"""Logits to tokens: each wish does what it says, in the documented order, and one row never another's."""

import math
from typing import Any

import numpy as np
import pytest
import torch

from penstock_runtime.engine.continuous.sampling_params import SamplingParams
from penstock_runtime.engine.continuous.steps.sampling_inputs import Draw, SamplingInputs
from penstock_runtime.models.decoders.sampling.logits_processors import (
    distribution,
    keep_nucleus,
    penalize,
)
from penstock_runtime.models.decoders.sampling.sampler import (
    _largest_of,
    _largest_on_device,
    sample,
)

DRAWS = 4000


def draw(row: int = 0, position: int = 10, **wishes: Any) -> Draw:
    more = {name: wishes.pop(name) for name in list(wishes) if name in Draw.__struct_fields__}
    params = SamplingParams(max_tokens=99, **wishes)
    return Draw(row, params, seed=5, choice=0, position=position, **{"output_tokens": 3, **more})


def tokens(logits: list[list[float]] | torch.Tensor, *draws: Draw) -> list[int]:
    given, wanted = torch.as_tensor(logits), SamplingInputs(draws)
    samples, failed = sample(given.clone(), wanted)
    assert sample(given.clone().numpy(), wanted) == (
        samples,
        failed,
    )  # logits of decoders without torch are numpy arrays
    assert not failed
    return [drawn.token for drawn in samples]


def shares(logits: list[float], **wishes: Any) -> list[float]:
    """How often each id is drawn over many positions."""
    rows = torch.tensor(logits).repeat(DRAWS, 1)
    ids = tokens(rows, *(draw(row, position=row, **wishes) for row in range(DRAWS)))
    drawn: list[float] = (np.bincount(ids, minlength=len(logits)) / DRAWS).tolist()
    return drawn


def test_greedy_takes_the_largest_and_the_lower_id_of_equals() -> None:
    assert tokens([[0.0, 3.0, 3.0, 1.0]], draw(temperature=0.0)) == [1]


def test_draws_follow_the_probabilities() -> None:
    wanted = torch.tensor([1.0, 0.0, 2.0, -1.0]).softmax(-1)
    assert shares([1.0, 0.0, 2.0, -1.0]) == pytest.approx(wanted.tolist(), abs=0.03)


def test_temperature_flattens() -> None:
    wanted = (torch.tensor([1.0, 0.0, 2.0, -1.0]) / 3).softmax(-1)
    assert shares([1.0, 0.0, 2.0, -1.0], temperature=3.0) == pytest.approx(
        wanted.tolist(), abs=0.03
    )


@pytest.mark.parametrize("temperature", [1e-5, 1e-40, 1e-320])
@pytest.mark.parametrize("dtype", [torch.float32, torch.float64])
def test_a_temperature_near_0_takes_the_largest_and_spoils_no_mate(
    dtype: torch.dtype, temperature: float
) -> None:
    rows = torch.tensor([[1.0, 3.0, 2.0, -math.inf]], dtype=dtype)
    [alone] = tokens(rows, draw(1))
    assert tokens(rows.repeat(2, 1), draw(0, temperature=temperature), draw(1)) == [1, alone]


def test_top_k_keeps_so_many() -> None:
    got = shares([1.0, 0.9, 0.8, 0.7], top_k=2)
    assert got[2:] == [0.0, 0.0]
    assert min(got[:2]) > 0.4


def test_top_p_keeps_the_fewest_that_reach_it() -> None:
    got = shares([math.log(0.5), math.log(0.3), math.log(0.15), math.log(0.05)], top_p=0.79)
    assert got[2:] == [0.0, 0.0]
    assert got[0] == pytest.approx(0.625, abs=0.03)


@pytest.mark.parametrize("top_p", [0.001, 0.3, 0.9, 0.999999])
@pytest.mark.parametrize("size", [5, 128, 1000])
def test_the_nucleus_is_that_of_a_whole_sort(top_p: float, size: int) -> None:
    weights = torch.rand(size, generator=torch.Generator().manual_seed(size)).round(decimals=2)
    ordered, ids = weights.sort(descending=True, stable=True)
    before = ordered.double().cumsum(0) - ordered
    kept = set(ids[before < top_p * weights.sum(dtype=torch.float64)].tolist())
    keep_nucleus(weights, top_p)
    assert set(torch.nonzero(weights).flatten().tolist()) == kept - set(
        torch.nonzero(weights == 0).flatten().tolist()
    )
    assert all(weights[token] > 0 for token in kept if ordered[0] > 0 and weights[token] != 0)


def test_the_nucleus_contains_the_top_token_however_small_top_p_is() -> None:
    weights = torch.tensor([0.1, 0.2, 0.1])
    keep_nucleus(weights, 5e-324)
    assert torch.nonzero(weights).flatten().tolist() == [1]


def test_min_p_is_a_share_of_the_top_token() -> None:
    got = shares([math.log(0.6), math.log(0.35), math.log(0.05)], min_p=0.1)
    assert got[2] == 0.0


@pytest.mark.parametrize(
    ("wishes", "kept"),
    [
        ({"top_p": 0.69}, [0, 1]),
        (
            {"top_p": 0.69, "min_p": 0.3},
            [0],
        ),  # 0.5 and 0.2 remain, and 0.5 is more than 0.69 of 0.7
        ({"top_p": 0.69, "top_k": 2}, [0]),
        ({"top_p": 0.69, "top_k": 3}, [0, 1]),
    ],
)
def test_top_p_is_a_share_of_what_min_p_and_top_k_keep(
    wishes: dict[str, Any], kept: list[int]
) -> None:
    logits = torch.tensor([[0.5, 0.2, 0.1, 0.05, 0.05, 0.05, 0.05]]).log()
    weights = distribution(logits, [draw(**wishes)])
    assert torch.nonzero(weights[0]).flatten().tolist() == kept


def test_penalties_follow_their_definitions() -> None:
    row = torch.tensor([2.0, -2.0, 1.0, 0.5, 0.0])
    asked = draw(
        repetition_penalty=2.0,
        frequency_penalty=0.1,
        presence_penalty=0.25,
        logit_bias=((4, 1.5),),
        prompt_ids=np.array([0, 1]),
        output_ids=np.array([2, 0]),
        output_counts=np.array([3.0, 1.0]),
    )
    penalize(row, asked)
    wanted = [2 / 2 - 0.1 - 0.25, -4.0, 1 / 2 - 0.3 - 0.25, 0.5, 1.5]
    assert row.tolist() == pytest.approx(wanted)


def test_a_grammars_mask_leaves_only_what_it_allows() -> None:
    mask = np.array([0b1010, 0b1], np.uint32)
    logits = [[9.0, 1.0, 9.0, 2.0, *[9.0] * 28, 3.0, 9.0]]
    assert tokens(logits, draw(temperature=0.0, mask=mask)) == [32]


def test_stop_ids_are_not_drawn_before_min_tokens() -> None:
    asked: dict[str, Any] = {"temperature": 0.0, "stop_ids": frozenset({1}), "min_tokens": 4}
    assert tokens([[0.0, 5.0, 1.0]], draw(**asked)) == [2]
    assert tokens([[0.0, 5.0, 1.0]], draw(**asked, output_tokens=4)) == [1]


def test_a_row_draws_the_same_whatever_its_mates_ask_for() -> None:
    rows = torch.randn((5, 300), generator=torch.Generator().manual_seed(1))
    asked = draw(2, position=77, top_p=0.8, temperature=1.3)
    mates = [draw(0, top_k=3), draw(1, temperature=0.0), asked, draw(3, min_p=0.5), draw(4)]
    assert tokens(rows, *mates)[2] == tokens(rows[2:3], asked)[0]


def test_a_row_of_no_numbers_fails_alone() -> None:
    logits = torch.tensor([[1.0, 2.0], [math.nan, 1.0], [3.0, 1.0]])
    greedy = SamplingInputs(tuple(draw(row, temperature=0.0) for row in range(3)))
    for given in (logits, logits.numpy()):
        samples, failed = sample(given, greedy)
        assert list(failed) == [1]
        assert (samples[0].token, samples[2].token) == (1, 0)


def test_logprobs_are_the_models_own_before_any_processor() -> None:
    logits = torch.tensor([[1.0, 3.0, 2.0]])
    samples, _ = sample(
        logits.clone(),
        SamplingInputs((draw(temperature=0.0, logprobs=2, logit_bias=((0, 100.0),)),)),
    )
    wanted = logits.log_softmax(-1)[0]
    logprob = samples[0].logprob
    assert logprob is not None
    assert samples[0].token == 0
    assert logprob.chosen == pytest.approx(wanted[0].item())
    assert [token for token, _ in logprob.top] == [1, 2]
    assert logprob.top[0][1] == pytest.approx(wanted[1].item())


def test_a_device_finds_the_same_largest_and_broken_rows_as_the_host() -> None:
    rows = [[1.0, 2.0, 2.0], [math.nan, 1.0, 0.0], [-math.inf] * 3, [0.0, math.inf, 1.0]]
    logits = torch.tensor(rows)
    assert _largest_on_device(logits) == _largest_of(logits.numpy()) == ([1, 0, 0, 1], [1, 2, 3])
