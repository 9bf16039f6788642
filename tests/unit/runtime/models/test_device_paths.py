"""What a GPU's batches go through, proved as far as a CPU can: copies by kept buffers, and recorded calls."""

import numpy as np
import pytest
import torch

from penstock_runtime.models.device.cuda_graphs import MAX_GRAPHS, MAX_ROWS, Graphs, Named, Replay
from penstock_runtime.models.device.prepacked_linear import (
    ONE_DNN_ACTIVATIONS,
    Chooser,
    Plain,
    Prepacked,
    Use,
    can_prepack,
    merged,
    prepack,
)
from penstock_runtime.models.device.staging import Buffers, DeviceStaging, HostStaging
from penstock_runtime.request import Tensor

CPU = torch.device("cpu")


def double(tensors: list[torch.Tensor]) -> dict[str, torch.Tensor]:
    return {"y": tensors[0] * 2, "rows": tensors[0][:, :1].long()}


class Recordings:
    """A recorder on a CPU: what it records it runs again, on the values given later."""

    def __init__(self, *, wrong: bool = False, rejects: bool = False) -> None:
        self.shapes: list[tuple[int, ...]] = []
        self.replays = 0
        self._wrong, self._rejects = wrong, rejects

    def record(self, call: Named, tensors: list[torch.Tensor]) -> Replay:
        if self._rejects:
            raise RuntimeError("operation not permitted when stream is capturing")
        self.shapes.append(tuple(tensors[0].shape))
        copies = [tensor.clone() for tensor in tensors]

        def replay(tensors: list[torch.Tensor]) -> dict[str, torch.Tensor]:
            self.replays += 1
            for mine, value in zip(copies, tensors, strict=True):
                mine.copy_(value)
            outputs = dict(call(copies))
            return (
                {name: tensor + 1 for name, tensor in outputs.items()} if self._wrong else outputs
            )

        return replay


def rows(count: int, start: int = 0) -> list[torch.Tensor]:
    return [torch.arange(start, start + 3 * count, dtype=torch.float32).view(count, 3)]


@pytest.mark.parametrize("staging", [HostStaging(), DeviceStaging(CPU)])
def test_a_batch_comes_back_as_its_own_copy_batch_after_batch(
    staging: HostStaging | DeviceStaging,
) -> None:
    kept: list[dict[str, Tensor]] = []
    for size in (4, 2, 9):
        x = np.full((size, 3), size, np.float32)
        x.setflags(write=False)
        kept.append(staging.run(double, [x]))
    for size, captured in zip((4, 2, 9), kept, strict=True):
        assert captured["y"].tolist() == [[2.0 * size] * 3] * size
        assert captured["rows"].dtype == np.int64


def test_buffers_are_kept_while_they_suffice() -> None:
    buffers = Buffers(pinned=False)
    first = buffers.like("in", (4, 4), torch.float32)
    again = buffers.like("in", (2, 4), torch.int64)
    assert first.data_ptr() == again.data_ptr()
    assert (again.shape, again.dtype) == ((2, 4), torch.int64)
    assert buffers.like("in", (100, 4), torch.float32).shape == (100, 4)
    assert buffers.like("none", (0, 4), torch.float32).numel() == 0


def test_a_call_is_recorded_once_a_bucket_of_rows_and_answers_its_own_rows() -> None:
    recorder = Recordings()
    graphs = Graphs(double, recorder)
    for count in (1, 3, 4, 2, 3):
        outputs = graphs(rows(count, start=count))
        assert outputs["y"].tolist() == (rows(count, start=count)[0] * 2).tolist()
    assert recorder.shapes == [(1, 3), (4, 3), (2, 3)]


def test_many_rows_are_run_plainly() -> None:
    recorder = Recordings()
    assert Graphs(double, recorder)(rows(MAX_ROWS + 1))["y"].shape == (MAX_ROWS + 1, 3)
    assert recorder.shapes == []


@pytest.mark.parametrize("broken", [{"wrong": True}, {"rejects": True}])
def test_a_call_that_cannot_be_recorded_truly_is_run_plainly_from_then_on(
    broken: dict[str, bool], caplog: pytest.LogCaptureFixture
) -> None:
    recorder = Recordings(**broken)
    graphs = Graphs(double, recorder)
    for count in (2, 2, 5):
        assert graphs(rows(count))["y"].tolist() == (rows(count)[0] * 2).tolist()
    assert len(recorder.shapes) <= 1
    assert caplog.text.count("runs without CUDA graphs") == 1


def test_the_number_of_recordings_is_bounded() -> None:
    recorder = Recordings()
    graphs = Graphs(double, recorder)
    for width in range(3, MAX_GRAPHS + 10):
        assert graphs([torch.ones(1, width)])["y"].shape == (1, width)
    assert len(recorder.shapes) == MAX_GRAPHS


def test_prepacked_layers_compute_what_plain_ones_do() -> None:
    torch.manual_seed(0)
    linear = torch.nn.Linear(24, 40).requires_grad_(requires_grad=False)
    assert can_prepack(linear.weight)
    x, residual = torch.randn(7, 24), torch.randn(7, 40)
    for name, fused in ONE_DNN_ACTIVATIONS.items():
        approximate = "tanh" if fused[1] == "tanh" else "none"
        act = torch.nn.ReLU() if name == "relu" else torch.nn.GELU(approximate)
        plain = Plain(linear.weight, linear.bias, act)
        packed = Prepacked(linear.weight, linear.bias, fused)
        for chosen, other in (
            (plain(x), packed(x)),
            (plain.activated(x), packed.activated(x)),
            (plain.added(x, residual), packed.added(x, residual)),
        ):
            torch.testing.assert_close(chosen, other, rtol=1e-5, atol=1e-5)


def test_what_one_dnn_does_not_take_stays_plain() -> None:
    chooser = Chooser(torch.nn.ReLU(), ONE_DNN_ACTIVATIONS["relu"])
    weight = torch.ones(2, 2, dtype=torch.float64)
    assert isinstance(chooser.affine(weight, None, Use.PLAIN), Plain)


def test_merged_layers_stand_side_by_side() -> None:
    torch.manual_seed(0)
    linears = [torch.nn.Linear(4, size) for size in (3, 5)]
    weight, bias = merged(*linears)
    x = torch.randn(2, 4)
    wanted = torch.cat([linear(x) for linear in linears], 1)
    torch.testing.assert_close(torch.nn.functional.linear(x, weight, bias), wanted)
    with pytest.raises(ValueError, match="layers must either all have a bias or all have none"):
        merged(linears[0], torch.nn.Linear(4, 2, bias=False))


def test_every_faster_layer_of_a_module_is_replaced_and_answers_the_same(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    torch.manual_seed(0)
    module = torch.nn.Sequential(
        torch.nn.Linear(4, 8), torch.nn.Sequential(torch.nn.ReLU(), torch.nn.Linear(8, 2))
    ).requires_grad_(requires_grad=False)
    x = torch.randn(2, 3, 4)
    with torch.inference_mode():
        wanted = module(x)
        monkeypatch.setattr(
            "penstock_runtime.models.device.prepacked_linear.seconds",
            lambda affine, *_: 0.0 if isinstance(affine, Prepacked) else 1.0,
        )
        assert prepack(module) == 2
        torch.testing.assert_close(module(x), wanted)
