"""Calls that the recorder makes to CUDA, checked on a stand-in because no device is needed."""

from collections.abc import Iterator
from contextlib import contextmanager
from types import SimpleNamespace

import pytest
import torch

from penstock_runtime.models.device.cuda_graphs import CudaRecorder, recorder_of


class Cuda:
    """Streams by name; work is noted with the stream that it was queued on."""

    def __init__(self, current: str) -> None:
        self.current, self.made, self.captured = current, 0, list[tuple[str, object]]()
        self.capture_fails = False

    def stand_in(self, monkeypatch: pytest.MonkeyPatch) -> None:
        for name in ("current_stream", "default_stream", "set_stream", "stream", "graph"):
            monkeypatch.setattr(torch.cuda, name, getattr(self, name))
        monkeypatch.setattr(torch.cuda, "Stream", self.new_stream)
        monkeypatch.setattr(torch.cuda, "CUDAGraph", lambda: SimpleNamespace(pool=lambda: "pool"))

    def current_stream(self) -> "Named":
        return Named(self.current)

    def default_stream(self) -> "Named":
        return Named("default")

    def new_stream(self) -> "Named":
        self.made += 1
        return Named(f"aside {self.made}")

    def set_stream(self, stream: "Named") -> None:
        self.current = stream.name

    @contextmanager
    def stream(self, stream: "Named") -> Iterator[None]:
        before, self.current = self.current, stream.name
        yield
        self.current = before

    @contextmanager
    def graph(self, graph: object, pool: object, stream: "Named") -> Iterator[None]:
        """As torch's: one that fails does not give the stream back."""
        before, self.current = self.current, stream.name
        self.captured.append((stream.name, pool))
        yield
        if self.capture_fails:
            raise RuntimeError("operation failed due to a previous error during capture")
        self.current = before


class Named(SimpleNamespace):
    def __init__(self, name: str) -> None:
        super().__init__(name=name)

    def wait_stream(self, other: object) -> None: ...
    def synchronize(self) -> None: ...


def same(tensors: list[torch.Tensor]) -> dict[str, torch.Tensor]:
    return {"y": tensors[0]}


def test_the_default_stream_is_left_for_one_aside_and_all_share_a_pool(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    cuda = Cuda("default")
    cuda.stand_in(monkeypatch)
    recorder = CudaRecorder()
    for _ in range(2):
        recorder.record(same, [torch.ones(1)])
    assert cuda.captured == [("aside 1", None), ("aside 1", "pool")]
    assert cuda.current == "default"


def test_a_stream_of_the_models_own_is_recorded_itself(monkeypatch: pytest.MonkeyPatch) -> None:
    cuda = Cuda("own")
    cuda.stand_in(monkeypatch)
    CudaRecorder().record(same, [torch.ones(1)])
    assert cuda.captured == [("own", None)]


def test_a_recording_that_fails_leaves_the_stream_as_it_was(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    cuda = Cuda("default")
    cuda.stand_in(monkeypatch)
    cuda.capture_fails = True
    with pytest.raises(RuntimeError, match="during capture"):
        CudaRecorder().record(same, [torch.ones(1)])
    assert cuda.current == "default"


def test_only_cuda_is_recorded() -> None:
    assert recorder_of(torch.device("cpu")) is None
    assert isinstance(recorder_of(torch.device("cuda", 0)), CudaRecorder)
