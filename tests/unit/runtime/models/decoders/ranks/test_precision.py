"""Log-probabilities of a model that is split over ranks, compared with those of one rank in float32."""

from dataclasses import replace
from pathlib import Path

import pytest
import torch

from penstock_api.pod_contract import BackendCandidate, ModelBackendState
from penstock_runtime.engine.continuous.steps.options import Compute, DType, StepOptions
from penstock_runtime.models.decoders.load import read_config
from penstock_runtime.models.decoders.open import open_step
from penstock_runtime.models.decoders.precision import expected_scores, token_errors
from tests.unit.runtime.models.decoders.ranks.group_of_ranks import led, save_divisible

OPTIONS = StepOptions(Compute.TORCH, DType.BFLOAT16, cache_bytes=1 << 20, block_tokens=8)
SPLIT = replace(OPTIONS, tensor_parallel=2, pipeline_parallel=2)
ROUNDING = 1e-3
"""Another order of sums in float32."""


@pytest.fixture(scope="module")
def folder(tmp_path_factory: pytest.TempPathFactory) -> Path:
    return save_divisible("llama", tmp_path_factory.mktemp("llama"))


def errors(state: ModelBackendState | None) -> BackendCandidate:
    assert state is not None
    (candidate,) = state.candidates
    return candidate


def test_ranks_in_float32_differ_from_one_rank_by_rounding_only(folder: Path) -> None:
    expected = expected_scores(folder, read_config(folder), torch.device("cpu"))
    with led(folder, replace(SPLIT, dtype=DType.FLOAT32)) as opened:
        step = opened.step
        assert step.info.model_backend is None
        got = opened.thread.submit(
            lambda: token_errors(step._decoder, step.info.kv, step.info.max_model_len, expected)
        ).result()
    assert 0 <= got.greatest < ROUNDING
    assert got.equal_share == 1


def test_ranks_in_a_requested_type_report_their_own_error_from_float32_and_keep_it(
    folder: Path, tmp_path: Path
) -> None:
    unsplit = errors(
        open_step(folder, replace(OPTIONS, folders=(tmp_path,)), "tiny").info.model_backend
    )
    states = []
    for _ in range(2):
        with led(folder, replace(SPLIT, folders=(tmp_path,))) as opened:
            states.append(opened.step.info.model_backend)
    first, second = map(errors, states)
    assert first == second
    assert [state is not None and state.cached for state in states] == [False, True]
    assert first.name == "Torch"
    assert first.mean_error is not None
    assert unsplit.mean_error is not None
    assert unsplit.mean_error / 2 < first.mean_error < 2 * unsplit.mean_error
    assert first.mean_error > ROUNDING / 10
    assert len(list(tmp_path.glob("*.json"))) == 2  # one for each split
