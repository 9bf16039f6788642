"""Replayed CUDA graphs give the logits of plain steps, touch no other blocks, and are disabled where capture fails."""

from collections.abc import Mapping
from dataclasses import replace
from functools import partial
from pathlib import Path
from typing import Any

import numpy as np
import pytest
import torch

from penstock_runtime.engine.continuous.opening import open_runner
from penstock_runtime.engine.continuous.steps.options import Compute, DType, StepOptions
from penstock_runtime.models.decoders import open as opening
from penstock_runtime.models.decoders import warm_up
from penstock_runtime.models.decoders.backends import registry as backends
from penstock_runtime.models.decoders.capacity import CACHE_SHARE
from penstock_runtime.models.decoders.open import open_step
from penstock_runtime.models.decoders.packing import positions_of
from penstock_runtime.models.decoders.step import TorchStep
from penstock_runtime.models.decoders.torch_decoders import cuda_graph_decoder
from penstock_runtime.models.decoders.torch_decoders.cuda_graph_decoder import (
    CudaGraphDecoder,
    padded,
    padded_rows,
)
from penstock_runtime.models.decoders.torch_decoders.self_check import difference, tolerance
from penstock_runtime.models.device.cuda_graphs import Named, Replay
from tests.unit.runtime.engine.continuous.driver import Driver, generate_request
from tests.unit.runtime.engine.continuous.fifo import FifoScheduler
from tests.unit.runtime.engine.continuous.scenarios import Scenario, references
from tests.unit.runtime.models.decoders.decode_steps import BLOCK_TOKENS, decodes, fill
from tests.unit.runtime.models.decoders.tiny_models import KNOWN, save
from tests.unit.runtime.models.decoders.tracing_recorder import TracingRecorder

OPTIONS = StepOptions(
    dtype=DType.FLOAT64,
    cache_bytes=1 << 20,
    host_cache_bytes=1 << 20,
    block_tokens=BLOCK_TOKENS,
    compute=Compute.TORCH,
    max_running=20,
)


@pytest.fixture
def recorder(monkeypatch: pytest.MonkeyPatch) -> TracingRecorder:
    tracing = TracingRecorder()
    monkeypatch.setattr(backends, "recorder_of", lambda _device: tracing)
    monkeypatch.setattr(warm_up, "MAX_SECONDS", 0.0)  # no timed steps at load
    return tracing


@pytest.fixture(scope="module")
def llama(tmp_path_factory: pytest.TempPathFactory) -> Path:
    return save("llama", tmp_path_factory.mktemp("llama"))


def decoder_of(step: TorchStep) -> CudaGraphDecoder:
    assert isinstance(step._decoder, CudaGraphDecoder)
    return step._decoder


def unrecorded(folder: Path) -> tuple[TorchStep, CudaGraphDecoder]:
    """Return a step that knows no shape yet, and its decoder."""
    step = open_step(folder, OPTIONS, "tiny")
    decoder = decoder_of(step)
    decoder._replays.clear()
    return step, decoder


def test_shapes_are_few_and_cover_the_requested_rows() -> None:
    assert [padded_rows(n) for n in (1, 2, 3, 5, 8, 9, 17, 64, 65, 256)] == [
        1, 2, 4, 8, 8, 16, 24, 64, 80, 256,
    ]  # fmt: skip
    assert padded(3, 1) == (4, 8)
    assert padded(3, 9) == (4, 16)
    every = {padded(rows, blocks) for rows in range(1, 257) for blocks in range(1, 513)}
    assert len({shape.rows for shape in every}) == 23
    assert len({shape.blocks for shape in every}) == 7
    assert all(padded(*shape) == shape for shape in every)


FAMILIES = [
    pytest.param(family, marks=[] if family in ("llama", "gemma3", "gpt2") else pytest.mark.long)
    for family in KNOWN
]
"""The short ones differ most: rotary and learned positions, sliding windows, norms of queries and keys."""


@pytest.mark.parametrize("family", FAMILIES)
def test_recorded_steps_say_what_a_model_says_that_runs_alone(
    family: str, recorder: TracingRecorder, tmp_path: Path
) -> None:
    folder = save(family, tmp_path)
    step, runner = open_runner(partial(open_step, folder, OPTIONS, "tiny"), depth=1)
    decoder, expected = decoder_of(step), references(folder, torch.float64)
    answers = replays = 0
    for seed in range(2):
        before = recorder.replays
        runner.depth = seed % 2
        scenario = Scenario(step, seed, runner)
        scenario.live(turns=12)
        scenario.check_ends()
        for which, tokens, ids in scenario.answers():
            assert ids == list(expected[which][:tokens]), f"seed {seed}, prompt {which}"
            answers += 1
        replays += recorder.replays - before
    runner.close()
    assert answers > 0
    assert replays > 20
    assert len(set(recorder.shapes)) == len(recorder.shapes) == decoder.captures


@pytest.mark.parametrize("dtype", [DType.FLOAT64, DType.FLOAT32, DType.BFLOAT16])
def test_a_replay_gives_the_plain_decoders_logits_for_other_rows_positions_and_tables(
    dtype: DType, llama: Path, recorder: TracingRecorder
) -> None:
    step = open_step(llama, replace(OPTIONS, dtype=dtype), "tiny")
    decoder = decoder_of(step)
    fill(step)
    decoder.forward(decodes([5, 60, 17]))
    recorded = decoder.captures
    for seed, contexts in enumerate(([3, 9, 30, 63], [0, 0, 1], [7, 8, 50])):
        packed = decodes(contexts, seed)
        got = decoder.forward(packed).clone()
        wanted = decoder._plain.forward(packed)
        assert got.shape == wanted.shape
        bound = {DType.FLOAT64: 1e-12, DType.FLOAT32: 1e-5}.get(dtype, tolerance(wanted.dtype))
        assert difference(got, wanted) <= bound
    assert decoder.captures == recorded


def test_padding_touches_no_block_but_the_spare_one_and_reads_none(
    llama: Path, recorder: TracingRecorder
) -> None:
    step = open_step(llama, OPTIONS, "tiny")
    decoder, packed = decoder_of(step), decodes([5, 60, 17], blocks=20)
    decoder.forward(packed)
    fill(step)
    blocks, own = step.info.kv.blocks, set[int]()
    for table, context in zip(packed.tables.tolist(), packed.contexts.tolist(), strict=True):
        own.update(table[: -(-context // BLOCK_TOKENS)])
    for layer in step._store.layers:
        assert len(layer) == 2 * (blocks + 1)
        for block in {*range(blocks + 1)} - own:
            layer[[block, blocks + 1 + block]] = torch.nan
    before = [layer.clone() for layer in step._store.layers]
    wanted = decoder._plain.forward(packed)
    assert torch.isfinite(wanted).all()
    for layer, was in zip(step._store.layers, before, strict=True):
        layer.copy_(was)
    assert difference(decoder.forward(packed), wanted) <= 1e-12
    for layer, was in zip(step._store.layers, before, strict=True):
        cells, old = (cache.view(2, -1, *cache.shape[2:]) for cache in (layer, was))
        same = torch.isclose(cells, old, rtol=0, atol=0, equal_nan=True).flatten(2).all(2)
        changed = set(torch.nonzero(~same)[:, 1].tolist())
        assert changed == {*packed.slots.tolist(), blocks * BLOCK_TOKENS}


def test_a_row_that_draws_nothing_gives_no_logits_and_order_is_kept(
    llama: Path, recorder: TracingRecorder
) -> None:
    step = open_step(llama, OPTIONS, "tiny")
    decoder, packed = decoder_of(step), decodes([5, 60, 17])
    decoder.forward(packed)
    whole = decoder.forward(packed).clone()
    for wanted in ([0, 2], [2, 0, 1], list[int]()):
        some = replace(packed, last=np.array(wanted, np.int64))
        assert torch.equal(decoder.forward(some), whole[wanted])
    assert decoder.captures == len(recorder.shapes)


def test_chunks_and_steps_that_gather_too_much_are_not_recorded(
    llama: Path, recorder: TracingRecorder, monkeypatch: pytest.MonkeyPatch
) -> None:
    step = open_step(llama, replace(OPTIONS, max_running=4), "tiny")
    decoder = decoder_of(step)
    before = decoder.captures, recorder.replays
    starts = np.array([0, 1, 4])
    tables = np.array([[3], [5]], np.int32)
    decoder.forward(positions_of(np.arange(4), tables, np.array([2, 0]), starts, BLOCK_TOKENS))
    decoder.forward(decodes([1, 2, 3, 4, 5]))
    monkeypatch.setattr(cuda_graph_decoder, "MAX_GATHERED", 0)
    decoder.forward(decodes([1, 2]))
    assert (decoder.captures, recorder.replays) == before


def test_the_recording_that_was_not_replayed_for_longest_makes_room(
    llama: Path, recorder: TracingRecorder, monkeypatch: pytest.MonkeyPatch
) -> None:
    _, decoder = unrecorded(llama)
    monkeypatch.setattr(cuda_graph_decoder, "MAX_GRAPHS", 2)
    for rows in (1, 2, 1, 4, 1):
        decoder.forward(decodes([3] * rows))
    assert list(decoder._replays) == [(4, 8), (1, 8)]


class Refusing(TracingRecorder):
    def record(self, call: Named, tensors: list[torch.Tensor]) -> Replay:
        raise RuntimeError("operation not permitted when stream is capturing")


class Stale(TracingRecorder):
    """Replays what it saw first, whatever it is given."""

    def record(self, call: Named, tensors: list[torch.Tensor]) -> Replay:
        replay = super().record(call, tensors)
        seen = [tensor.clone() for tensor in tensors]

        def again(tensors: list[torch.Tensor]) -> Mapping[str, torch.Tensor]:
            return replay(seen)

        return again


def look(decoder: Any) -> None:
    plain = decoder._plain.logits

    def looking(ids: torch.Tensor, *more: Any) -> torch.Tensor:
        logits: torch.Tensor = plain(ids, *more)
        return logits + (0.0 if ids.max().item() >= 0 else 1.0)

    decoder._plain.logits = looking


@pytest.mark.parametrize("failing_recorder", [Refusing(), Stale()])
def test_where_recording_does_not_hold_every_step_is_plain_from_then_on(
    failing_recorder: TracingRecorder,
    llama: Path,
    monkeypatch: pytest.MonkeyPatch,
    caplog: pytest.LogCaptureFixture,
) -> None:
    monkeypatch.setattr(backends, "recorder_of", lambda _device: failing_recorder)
    monkeypatch.setattr(warm_up, "MAX_SECONDS", 0.0)
    step = open_step(llama, OPTIONS, "tiny")
    decoder = decoder_of(step)
    assert decoder.captures == 1
    assert caplog.text.count("generation runs without CUDA graphs") == 1
    driver = Driver(step, FifoScheduler(step.info.kv))
    prompts = [[1, 2, 3], [4, 5]]
    for index, prompt in enumerate(prompts):
        driver.engine.take(generate_request(str(index), prompt, tokens=6), driver.now)
    driver.run()
    assert all(len(driver.tokens[str(index), 0]) == 6 for index in range(2))
    assert decoder.captures == 1


def test_a_model_that_looks_at_values_is_run_plainly(
    llama: Path, recorder: TracingRecorder, caplog: pytest.LogCaptureFixture
) -> None:
    _, decoder = unrecorded(llama)
    look(decoder)
    packed = decodes([3, 4])
    assert torch.equal(decoder.forward(packed), decoder._plain.forward(packed))
    assert decoder._recorder is None
    assert "without CUDA graphs" in caplog.text


def test_a_broken_rows_numbers_do_not_end_recording(llama: Path, recorder: TracingRecorder) -> None:
    (step, decoder), packed = unrecorded(llama), decodes([5, 60, 17])
    fill(step)
    for layer in step._store.layers:
        layer[packed.tables[1, 0]] = torch.nan
    assert torch.isnan(decoder.forward(packed)).any(1).tolist() == [False, True, False]
    assert decoder._recorder is not None


def test_steps_that_were_recorded_do_not_count_in_the_service_curve(
    llama: Path, recorder: TracingRecorder
) -> None:
    step, _ = unrecorded(llama)
    driver = Driver(step, FifoScheduler(step.info.kv))
    driver.engine.take(generate_request("a", [1, 2, 3], tokens=6), driver.now)
    driver.run()
    assert driver.engine._curve.sums().sums[0] == 5  # a prompt, five decodes, of which one recorded


def test_the_cache_leaves_room_for_the_spare_block_and_for_what_is_gathered(
    llama: Path, recorder: TracingRecorder, monkeypatch: pytest.MonkeyPatch
) -> None:
    step = open_step(llama, OPTIONS, "tiny")
    kv, layers = step.info.kv, len(step._store.layers)
    assert sum(layer.nbytes for layer in step._store.layers) <= 1 << 20
    assert (kv.blocks + 1) * kv.block_bytes == sum(layer.nbytes for layer in step._store.layers)
    free = 1 << 20
    monkeypatch.setattr(opening, "free_bytes", lambda _device: free)
    kv = open_step(llama, replace(OPTIONS, cache_bytes=None), "tiny").info.kv
    gathered = cuda_graph_decoder.MAX_GATHERED * kv.block_bytes // layers
    most = int(CACHE_SHARE["cpu"] * free)
    assert (kv.blocks + 1) * (kv.block_bytes + gathered) <= most
    assert (kv.blocks + 2) * (kv.block_bytes + gathered) > most


def test_a_cpu_records_nothing(llama: Path) -> None:
    step = open_step(llama, OPTIONS, "tiny")
    assert not isinstance(step._decoder, CudaGraphDecoder)
    assert len(step._store.layers[0]) == 2 * step.info.kv.blocks
