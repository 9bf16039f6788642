"""Attention of a decode step, side by side: this runtime's backend, and torch's kernels over keys that need no gathering."""

from collections.abc import Callable, Iterator
from dataclasses import dataclass
from functools import partial

import torch
from torch.nn.attention import SDPBackend, sdpa_kernel
from torch.nn.functional import scaled_dot_product_attention

from penstock_runtime.engine.model import describe
from penstock_runtime.models.decoders.attention.base import Geometry, HeadShape, LayerRule
from penstock_runtime.models.decoders.attention.gather import GatherAttention
from penstock_runtime.models.device.cuda_graphs import Named
from tests.gpu.plan import Setting
from tests.gpu.record import Record
from tests.gpu.recording import recorder_for
from tests.gpu.timing import median_seconds

BLOCK_TOKENS = 16
HEADS = HeadShape(query=32, kv=8, size=64)


@dataclass(frozen=True, slots=True)
class Rows:
    """Rows that each decode one token behind `context` positions."""

    rows: int
    context: int
    dtype: torch.dtype
    device: torch.device

    @property
    def bytes_read(self) -> int:
        """Return the bytes of the keys and values that the rows attend to."""
        return 2 * self.rows * self.context * HEADS.kv * HEADS.size * self.dtype.itemsize

    def random(self, *shape: int) -> torch.Tensor:
        """Return random values on the device."""
        return torch.randn(shape, device=self.device).to(self.dtype)


def compare(setting: Setting, record: Record, gb_per_second: float, dtype: torch.dtype) -> None:
    """Time each backend on one layer; its share of the bandwidth counts reading keys and values once."""
    rows = Rows(setting.size(64, 2), setting.size(1024, 64), dtype, setting.device)
    record.figure("attention: rows and positions of a decode step", f"{rows.rows} x {rows.context}")
    for name, call in _backends(rows):
        try:
            with torch.inference_mode():
                replay = recorder_for(setting).record(
                    _named(call), []
                )  # without launches, as in a step
                seconds = median_seconds(partial(replay, []), setting.device, setting.size(20, 2))
        except Exception as error:  # noqa: BLE001  a kernel may reject this device, type or shape
            record.leave_out(f"attention, {name}", describe(error, 120))
            continue
        share = rows.bytes_read / seconds / 1e9 / gb_per_second
        record.figure(f"attention, {name}", 1e6 * seconds, f"us, {share:.2f} of bandwidth")
    record.leave_out("attention, FlashInfer and an own paged kernel", "not built into this runtime")


def _named(call: Callable[[], torch.Tensor]) -> Named:
    return lambda _: {"attended": call()}


def _backends(rows: Rows) -> Iterator[tuple[str, Callable[[], torch.Tensor]]]:
    yield "gather-sdpa (this runtime)", _gathered(rows)
    for backend in (SDPBackend.FLASH_ATTENTION, SDPBackend.CUDNN_ATTENTION, SDPBackend.EFFICIENT_ATTENTION, SDPBackend.MATH):  # fmt: skip
        yield f"SDPA {backend.name.lower()}, contiguous keys", _contiguous(rows, backend)
    yield f"varlen_attn, contiguous keys, {HEADS.kv} query heads", _varlen(rows)


def _gathered(rows: Rows) -> Callable[[], torch.Tensor]:
    """Return a call of the runtime's backend over scattered blocks, which also stores the new keys and values."""
    blocks = rows.rows * -(-rows.context // BLOCK_TOKENS)
    backend = GatherAttention(Geometry(HEADS, BLOCK_TOKENS, rows.dtype, rows.device))
    cache = backend.allocate(blocks)
    cache.copy_(torch.randn(cache.shape, device=rows.device))
    tables = torch.randperm(blocks, device=rows.device).view(rows.rows, -1)
    positions = torch.full((rows.rows,), rows.context - 1, device=rows.device)
    query = rows.random(rows.rows, HEADS.query, HEADS.size)
    key, value = (rows.random(rows.rows, HEADS.kv, HEADS.size) for _ in range(2))
    backend.begin_decode(positions, tables)
    rule = LayerRule(HEADS.size**-0.5)
    return lambda: backend.attend(cache, query, key, value, rule)


def _contiguous(rows: Rows, backend: SDPBackend) -> Callable[[], torch.Tensor]:
    query = rows.random(rows.rows, HEADS.query, 1, HEADS.size)
    key, value = (rows.random(rows.rows, HEADS.kv, rows.context, HEADS.size) for _ in range(2))

    def call() -> torch.Tensor:
        with sdpa_kernel(backend):
            return scaled_dot_product_attention(query, key, value, enable_gqa=True)

    return call


def _varlen(rows: Rows) -> Callable[[], torch.Tensor]:
    """Return a call of torch's attention over packed sequences, which has no block tables in torch 2.11."""
    keys = rows.rows * rows.context
    query = rows.random(
        rows.rows, HEADS.kv, HEADS.size
    )  # it takes as many query heads as key heads
    key, value = (rows.random(keys, HEADS.kv, HEADS.size) for _ in range(2))
    starts = torch.arange(rows.rows + 1, dtype=torch.int32, device=rows.device)

    def call() -> torch.Tensor:
        from torch.nn.attention.varlen import varlen_attn

        attended = varlen_attn(query, key, value, starts, starts * rows.context, 1, rows.context)
        assert isinstance(attended, torch.Tensor)
        return attended

    return call
