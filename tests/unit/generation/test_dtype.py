"""The type that a 16-bit model computes in on a CPU: measured at load where no setting names one, bounded by memory."""

import logging
from collections.abc import Mapping, Sequence
from dataclasses import replace
from itertools import count
from pathlib import Path

import pytest
import torch
from transformers import PreTrainedConfig

from penstock_runtime.generation.options import DType, StepOptions
from penstock_runtime.generation.step.dtype import Measure, choose_dtype
from penstock_runtime.generation.step.dtype_times import TypeTimes, measure_types
from penstock_runtime.generation.step.load import read_config
from penstock_runtime.generation.step.memory import holds_float32
from penstock_runtime.generation.step.open import open_step
from tests.unit.generation.models import CONFIGS, auto

OPTIONS = StepOptions(cache_bytes=1 << 18, block_tokens=8)
CPU = torch.device("cpu")


@pytest.fixture(scope="module", params=[torch.bfloat16, torch.float16], ids=str)
def folder(request: pytest.FixtureRequest, tmp_path_factory: pytest.TempPathFactory) -> Path:
    """A small Llama whose files are 16-bit."""
    target = tmp_path_factory.mktemp("half")
    auto.from_config(CONFIGS["llama"], dtype=request.param).save_pretrained(target)
    return target


def stored_type(folder: Path) -> torch.dtype:
    held = read_config(folder).dtype
    assert isinstance(held, torch.dtype)
    return held


def prefers(fastest: torch.dtype) -> Measure:
    """Return a measurement in which one type takes half the others' time."""

    def measure(
        _config: PreTrainedConfig, _options: StepOptions, dtypes: Sequence[torch.dtype]
    ) -> Mapping[torch.dtype, TypeTimes]:
        return {
            one: TypeTimes(0.01, 0.001) if one is fastest else TypeTimes(0.02, 0.002)
            for one in dtypes
        }

    return measure


def never(*_given: object) -> Mapping[torch.dtype, TypeTimes]:
    raise AssertionError("measured though the type is settled")


def test_the_faster_type_serves(folder: Path, caplog: pytest.LogCaptureFixture) -> None:
    caplog.set_level(logging.INFO)
    stored = stored_type(folder)
    for fastest in (torch.float32, stored):
        step = open_step(folder, OPTIONS, "tiny", CPU, prefers(fastest))
        assert step.info.dtype == str(fastest).removeprefix("torch.")
        assert step._store.layers[0].dtype is fastest
        (said,) = [one for one in caplog.messages if "the fastest type here" in one]
        caplog.clear()
        assert f"computes in {step.info.dtype}," in said
        for figure in ("10 ms for a layer's prompt of 32", "20 ms for a layer's prompt of 32"):
            assert figure in said


def test_a_type_that_is_named_is_not_measured(folder: Path) -> None:
    for named in (DType.FLOAT32, DType.BFLOAT16):
        step = open_step(folder, replace(OPTIONS, dtype=named), "tiny", CPU, never)
        assert step.info.dtype == named.value


@pytest.mark.parametrize("stored", [torch.float32, torch.float64])
def test_wide_models_are_not_measured(stored: torch.dtype) -> None:
    config = PreTrainedConfig(dtype=stored)
    assert choose_dtype(config, OPTIONS, CPU, lambda: True, never) is stored


def test_a_gpu_computes_as_the_files_say(folder: Path) -> None:
    cuda = torch.device("cuda")
    found = choose_dtype(read_config(folder), OPTIONS, cuda, lambda: True, never)
    assert found is stored_type(folder)


def test_float32_is_not_tried_where_it_does_not_fit(folder: Path) -> None:
    found = choose_dtype(read_config(folder), OPTIONS, CPU, lambda: False, never)
    assert found is stored_type(folder)


def test_the_memory_of_float32_counts_both_copies_and_the_cache(folder: Path) -> None:
    stored = sum(one.stat().st_size for one in folder.glob("*.safetensors"))
    needed = 4 * stored + (1 << 18)
    assert holds_float32(folder, OPTIONS, needed)
    assert not holds_float32(folder, OPTIONS, needed - 1)
    swaps = replace(OPTIONS, host_cache_bytes=100)
    assert not holds_float32(folder, swaps, needed + 99)
    shared = replace(OPTIONS, cache_bytes=None)  # a quarter of what the weights leave
    assert holds_float32(folder, shared, 5 * stored)
    assert not holds_float32(folder, shared, 4 * stored)


def test_a_tie_and_a_measurement_without_figures_keep_the_files_type(folder: Path) -> None:
    config, stored = read_config(folder), stored_type(folder)

    def tie(*_given: object) -> Mapping[torch.dtype, TypeTimes]:
        return dict.fromkeys((stored, torch.float32), TypeTimes(1.0, 1.0))

    def nothing(*_given: object) -> Mapping[torch.dtype, TypeTimes]:
        return {}

    for measure in (tie, nothing):
        assert choose_dtype(config, OPTIONS, CPU, lambda: True, measure) is stored


def test_both_types_are_really_run(folder: Path) -> None:
    stored = stored_type(folder)
    times = measure_types(read_config(folder), OPTIONS, (stored, torch.float32))
    assert set(times) == {stored, torch.float32}
    assert all(one.prompt > 0 and one.decode > 0 for one in times.values())
    step = open_step(folder, OPTIONS, "tiny", CPU)
    assert step.info.dtype in {"float32", str(stored).removeprefix("torch.")}


@pytest.mark.parametrize("family", sorted(CONFIGS))
def test_one_layer_of_every_known_family_is_measured(family: str) -> None:
    types = (torch.bfloat16, torch.float32)
    assert set(measure_types(CONFIGS[family], OPTIONS, types)) == set(types)


def test_a_type_that_does_not_run_here_is_left_out() -> None:
    native = replace(OPTIONS, attention="native")
    types = (torch.float16, torch.float32)
    assert set(measure_types(CONFIGS["llama"], native, types)) == {torch.float32}


def test_rounds_end_with_their_time_and_a_first_run_counts_only_where_it_is_alone() -> None:
    ticks = count()
    times = measure_types(CONFIGS["llama"], OPTIONS, (torch.float32,), lambda: float(next(ticks)))
    assert times[torch.float32] == TypeTimes(1.0, 1.0)
    assert next(ticks) == 6  # the start, two runs of one round, and the look that ended it

    reads = [0, 0, 90, 90, 190, *[200] * 99]  # milliseconds: the first round takes 190
    looks = iter(reads)
    times = measure_types(CONFIGS["llama"], OPTIONS, (torch.float32,), lambda: next(looks) / 1000)
    assert times[torch.float32] == TypeTimes(0.0, 0.0)


def test_the_measurement_leaves_the_random_numbers_and_the_config_alone() -> None:
    torch.manual_seed(7)
    expected = torch.rand(3)
    torch.manual_seed(7)
    config = CONFIGS["llama"]
    before = config.to_dict()
    measure_types(config, OPTIONS, (torch.bfloat16, torch.float32))
    assert torch.equal(torch.rand(3), expected)
    assert config.to_dict() == before
