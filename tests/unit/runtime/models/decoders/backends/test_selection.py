"""The backend and the type that a model computes in on a CPU: measured at load where no setting names them."""

import json
import logging
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import replace
from itertools import count
from pathlib import Path
from typing import Any

import numpy as np
import pytest
import torch
from transformers import PreTrainedConfig

from penstock_runtime.engine.continuous.steps.options import Compute, DType, StepOptions
from penstock_runtime.engine.model import ModelLoadFailed
from penstock_runtime.models.decoders.backends.selection import Measure, select
from penstock_runtime.models.decoders.backends.step_times import (
    StepCandidate,
    StepTimes,
    measure_steps,
)
from penstock_runtime.models.decoders.capacity import fits_float32
from penstock_runtime.models.decoders.load import read_config
from penstock_runtime.models.decoders.open import open_step
from penstock_runtime.models.decoders.openvino.decoder import OpenVinoDecoder
from penstock_runtime.models.decoders.packing import PackedBatch
from tests.unit.runtime.models.decoders.tiny_models import KNOWN, auto, config_of, save

OPTIONS = StepOptions(cache_bytes=1 << 18, block_tokens=8)
CPU = torch.device("cpu")
FLOAT32, FLOAT16, BFLOAT16 = torch.float32, torch.float16, torch.bfloat16
ON_TORCH = StepCandidate(Compute.TORCH, FLOAT32)
ON_OPENVINO = StepCandidate(Compute.OPENVINO, FLOAT32)


@pytest.fixture(scope="module", params=[torch.bfloat16, torch.float16], ids=str)
def folder(request: pytest.FixtureRequest, tmp_path_factory: pytest.TempPathFactory) -> Path:
    """A small Llama whose files are 16-bit."""
    target = tmp_path_factory.mktemp("half")
    auto.from_config(config_of("llama"), dtype=request.param).save_pretrained(target)
    return target


def stored_type(folder: Path) -> torch.dtype:
    dtype = read_config(folder).dtype
    assert isinstance(dtype, torch.dtype)
    return dtype


def prefers(fastest: StepCandidate) -> Measure:
    """Return a measurement in which one candidate takes half the others' time."""

    def measure(
        _config: PreTrainedConfig, _options: StepOptions, candidates: Sequence[StepCandidate]
    ) -> Mapping[StepCandidate, StepTimes]:
        return {
            candidate: StepTimes(0.01, 0.001) if candidate == fastest else StepTimes(0.02, 0.002)
            for candidate in candidates
        }

    return measure


def never(*_given: object) -> Mapping[StepCandidate, StepTimes]:
    raise AssertionError("measured though nothing is left to select")


def candidates_of(
    config: PreTrainedConfig, options: StepOptions, *, room: bool = True
) -> list[StepCandidate]:
    """Return what is measured."""
    seen = list[StepCandidate]()

    def measure(
        _config: PreTrainedConfig, _options: StepOptions, candidates: Sequence[StepCandidate]
    ) -> Mapping[StepCandidate, StepTimes]:
        seen.extend(candidates)
        return {}

    select(config, options, CPU, lambda: room, measure)
    return seen


def test_the_fastest_candidate_serves_and_the_log_has_all_figures(
    folder: Path, caplog: pytest.LogCaptureFixture
) -> None:
    caplog.set_level(logging.INFO)
    for fastest in (ON_OPENVINO, ON_TORCH, StepCandidate(Compute.TORCH, stored_type(folder))):
        step = open_step(folder, OPTIONS, "tiny", CPU, prefers(fastest))
        assert step.info.dtype == str(fastest.dtype).removeprefix("torch.")
        assert (step.info.attention == "openvino") == (fastest.compute is Compute.OPENVINO)
        assert step._store.layers[0].dtype is fastest.dtype
        (said,) = [message for message in caplog.messages if "as the fastest backend" in message]
        caplog.clear()
        assert f"selected {fastest} as" in said
        for figure in (
            "10 ms per layer to prefill 32 tokens",
            "20 ms per layer to prefill 32 tokens",
        ):
            assert figure in said


def test_what_is_named_is_not_measured(folder: Path) -> None:
    for named in (DType.FLOAT32, DType.BFLOAT16):
        options = replace(OPTIONS, compute=Compute.TORCH, dtype=named)
        assert open_step(folder, options, "tiny", CPU, never).info.dtype == named.value


@pytest.mark.parametrize("stored", [FLOAT32, torch.float64])
def test_wide_models_keep_their_type(stored: torch.dtype) -> None:
    config = PreTrainedConfig(dtype=stored)
    assert {candidate.dtype for candidate in candidates_of(config, OPTIONS)} <= {stored}


def test_a_half_precision_model_is_tried_on_both_backends_in_both_types() -> None:
    both = candidates_of(PreTrainedConfig(dtype=BFLOAT16), OPTIONS)
    assert set(both) == {
        StepCandidate(compute, dtype)
        for compute in (Compute.OPENVINO, Compute.TORCH)
        for dtype in (BFLOAT16, FLOAT32)
    }
    float16 = candidates_of(PreTrainedConfig(dtype=FLOAT16), OPTIONS)
    assert set(float16) == {ON_OPENVINO, ON_TORCH, StepCandidate(Compute.TORCH, FLOAT16)}


def test_float64_computes_on_torch_unmeasured() -> None:
    exact = replace(OPTIONS, dtype=DType.FLOAT64)
    selected = select(PreTrainedConfig(dtype=BFLOAT16), exact, CPU, lambda: True, never)
    assert selected == StepCandidate(Compute.TORCH, torch.float64)


def test_a_gpu_computes_on_torch_as_the_files_say(folder: Path) -> None:
    cuda = torch.device("cuda")
    selected = select(read_config(folder), OPTIONS, cuda, lambda: True, never)
    assert selected == StepCandidate(Compute.TORCH, stored_type(folder))


def test_float32_is_not_tried_where_it_does_not_fit() -> None:
    candidates = candidates_of(PreTrainedConfig(dtype=BFLOAT16), OPTIONS, room=False)
    assert {candidate.dtype for candidate in candidates} == {BFLOAT16}


def test_the_memory_of_float32_counts_all_copies_and_the_cache(folder: Path) -> None:
    stored = sum(file.stat().st_size for file in folder.glob("*.safetensors"))
    needed = 6 * stored + (1 << 18)
    assert fits_float32(folder, OPTIONS, needed)
    assert not fits_float32(folder, OPTIONS, needed - 1)
    swaps = replace(OPTIONS, host_cache_bytes=100)
    assert not fits_float32(folder, swaps, needed + 99)
    shared = replace(OPTIONS, cache_bytes=None)  # a quarter of what the weights leave
    assert fits_float32(folder, shared, 8 * stored)
    assert not fits_float32(folder, shared, 7 * stored)


@pytest.mark.parametrize("pattern", ["model-{}-of-2", "pytorch_model-{}-of-2"])
def test_the_memory_of_float32_counts_the_files_of_the_index_alone(
    tmp_path: Path, pattern: str
) -> None:
    shards = [f"{pattern.format(number)}.safetensors" for number in (1, 2)]
    for name in (*shards, "model.fp16.safetensors"):
        (tmp_path / name).write_bytes(bytes(100))
    index = {"weight_map": dict(zip("ab", shards, strict=True))}
    (tmp_path / "model.safetensors.index.json").write_text(json.dumps(index))
    options = replace(OPTIONS, cache_bytes=0)
    assert fits_float32(tmp_path, options, 3 * 2 * 200)
    assert not fits_float32(tmp_path, options, 3 * 2 * 200 - 1)


def test_a_tie_keeps_the_files_type_and_without_figures_torch_serves(folder: Path) -> None:
    config, stored = read_config(folder), stored_type(folder)

    def tie(
        _config: PreTrainedConfig, _options: StepOptions, candidates: Sequence[StepCandidate]
    ) -> Mapping[StepCandidate, StepTimes]:
        return dict.fromkeys(candidates, StepTimes(1.0, 1.0))

    def nothing(*_given: object) -> Mapping[StepCandidate, StepTimes]:
        return {}

    assert select(config, OPTIONS, CPU, lambda: True, tie).dtype is stored
    selected = select(config, OPTIONS, CPU, lambda: True, nothing)
    assert selected == StepCandidate(Compute.TORCH, stored)


def test_all_candidates_are_really_run(folder: Path) -> None:
    candidates = [ON_OPENVINO, ON_TORCH, StepCandidate(Compute.TORCH, stored_type(folder))]
    times = measure_steps(read_config(folder), OPTIONS, candidates)
    assert set(times) == set(candidates)
    assert all(measured.prompt > 0 and measured.decode > 0 for measured in times.values())
    step = open_step(folder, OPTIONS, "tiny", CPU)
    assert step.info.dtype in {"float32", str(stored_type(folder)).removeprefix("torch.")}


@pytest.mark.parametrize("family", sorted(KNOWN))
def test_one_layer_of_every_known_family_is_measured(family: str) -> None:
    times = measure_steps(config_of(family), OPTIONS, (ON_TORCH, ON_OPENVINO))
    assert set(times) == {ON_TORCH} | ({ON_OPENVINO} if family != "gemma2" else set())


def test_a_candidate_whose_type_its_backend_lacks_is_left_out(
    caplog: pytest.LogCaptureFixture,
) -> None:
    caplog.set_level(logging.INFO)
    candidates = (StepCandidate(Compute.OPENVINO, FLOAT16), ON_TORCH)
    assert set(measure_steps(config_of("llama"), OPTIONS, candidates)) == {ON_TORCH}
    assert "OpenVINO in float16 was not measured" in caplog.text


@pytest.mark.usefixtures("without_openvino")
def test_a_candidate_that_is_not_installed_is_left_out() -> None:
    assert set(measure_steps(config_of("llama"), OPTIONS, (ON_OPENVINO, ON_TORCH))) == {ON_TORCH}


@pytest.fixture
def wrong_openvino(monkeypatch: pytest.MonkeyPatch) -> Iterator[None]:
    """OpenVINO answers a little too much."""
    right: Any = OpenVinoDecoder.forward

    def forward(self: OpenVinoDecoder, packed: PackedBatch) -> np.ndarray:
        wrong: np.ndarray = right(self, packed) * 1.1
        return wrong

    with monkeypatch.context() as patched:
        patched.setattr(OpenVinoDecoder, "forward", forward)
        yield


@pytest.mark.usefixtures("wrong_openvino")
def test_torch_serves_where_the_selected_backend_answers_wrongly(
    tmp_path: Path, caplog: pytest.LogCaptureFixture
) -> None:
    folder = save("llama", tmp_path)
    step = open_step(folder, OPTIONS, "tiny", CPU, prefers(ON_OPENVINO))
    assert (step.info.attention, step.info.kv.block_tokens) == ("gather-sdpa", 8)
    assert "falling back to the torch backend, because OpenVINO failed" in caplog.text
    with pytest.raises(ModelLoadFailed, match="differs from transformers' own"):
        open_step(folder, replace(OPTIONS, compute=Compute.OPENVINO), "tiny", CPU)


def test_rounds_end_with_their_time_and_a_first_run_counts_only_where_it_is_alone() -> None:
    ticks = count()
    times = measure_steps(config_of("llama"), OPTIONS, (ON_TORCH,), lambda: float(next(ticks)))
    assert times[ON_TORCH] == StepTimes(1.0, 1.0)
    assert next(ticks) == 6  # the start, two runs of one round, and the look that ended it

    reads = [0, 0, 90, 90, 190, *[200] * 99]  # milliseconds: the first round takes 190
    looks = iter(reads)
    times = measure_steps(config_of("llama"), OPTIONS, (ON_TORCH,), lambda: next(looks) / 1000)
    assert times[ON_TORCH] == StepTimes(0.0, 0.0)


def test_the_measurement_leaves_the_random_numbers_and_the_config_alone() -> None:
    torch.manual_seed(7)
    expected = torch.rand(3)
    torch.manual_seed(7)
    config = config_of("llama")
    before = config.to_dict()
    measure_steps(config, OPTIONS, (ON_OPENVINO, ON_TORCH))
    assert torch.equal(torch.rand(3), expected)
    assert config.to_dict() == before
