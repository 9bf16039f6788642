"""The C file: right to rounding, and the same bits whatever else is computed beside a token."""

import ctypes
import platform
from collections.abc import Callable
from itertools import pairwise
from pathlib import Path
from typing import Any, NamedTuple

import numpy as np
import pytest
from numpy.typing import NDArray

from penstock_runtime.generation.step.native.abi import Batch, Kind, Op
from penstock_runtime.generation.step.native.build import library, make_portable

Floats = NDArray[np.float32]
Run = Callable[[Op, Batch], None]
TOKENS = 61
SHAPES = [  # heads, kv heads, size, block, window, softcap
    (4, 4, 8, 8, 0, 0.0),
    (4, 2, 8, 8, 12, 0.0),
    (8, 4, 32, 16, 0, 0.0),
    (3, 1, 64, 16, 0, 0.0),
    (12, 4, 64, 16, 20, 30.0),
    (7, 7, 40, 24, 0, 0.0),
]
random = np.random.default_rng(0)


def runs(call: Any) -> Run:
    call.argtypes = [ctypes.c_void_p, ctypes.c_int64, ctypes.c_void_p]
    return lambda op, batch: call(ctypes.addressof(op), 1, ctypes.addressof(batch))


@pytest.fixture(scope="module")
def run() -> Run:
    return runs(library().penstock_run)


def attended(
    run: Run, shape: tuple[int, int, int, int, int, float], qkv: Floats, width: int
) -> Floats:
    """Feed all tokens in chunks of `width`, over blocks in descending order that are full of NaN at first."""
    heads, kv, size, block, window, softcap = shape
    blocks = -(-TOKENS // block)
    keys, values = np.full((2, blocks, kv * size * block), np.nan, np.float32)
    scores = np.empty(max(heads, 4 * heads // kv) * (TOKENS + 2 * block), np.float32)
    tables = np.arange(blocks, dtype=np.int32)[::-1].copy()
    out = np.empty((TOKENS, heads * size), np.float32)
    for begin, end in pairwise([*range(0, TOKENS, width), TOKENS]):
        fed, at = qkv[begin:end].copy(), np.arange(begin, end)
        slots = tables[at // block].astype(np.int64) * block + at % block
        owners, starts = np.zeros_like(at), np.array([0, end - begin])
        op = Op(
            kind=Kind.ATTEND,
            in_stride=fed.shape[1],
            out_stride=out.shape[1],
            in_=fed.ctypes.data,
            out=out[begin:].ctypes.data,
            scale=size**-0.5,
            softcap=softcap,
            window=window,
            keys=keys.ctypes.data,
            values=values.ctypes.data,
        )
        batch = Batch(
            tokens=len(at),
            table_stride=blocks,
            heads=heads,
            kv_heads=kv,
            size=size,
            block_tokens=block,
            threads=1,
            scores_stride=len(scores),
            positions=at.ctypes.data,
            slots=slots.ctypes.data,
            starts=starts.ctypes.data,
            owners=owners.ctypes.data,
            tables=tables.ctypes.data,
            scores=scores.ctypes.data,
        )
        run(op, batch)
    return out


def plain(shape: tuple[int, int, int, int, int, float], qkv: Floats) -> NDArray[np.float64]:
    heads, kv, size, _, window, softcap = shape
    split = np.split(qkv.astype(float).reshape(TOKENS, -1, size), [heads, heads + kv], axis=1)
    query, key, value = split[0], *(one.repeat(heads // kv, 1) for one in split[1:])
    scores = np.einsum("thd,nhd->htn", query, key) * size**-0.5
    if softcap:
        scores = softcap * np.tanh(scores / softcap)
    ahead = np.arange(TOKENS)[:, None] - np.arange(TOKENS)
    seen = (ahead >= 0) & (ahead < (window or TOKENS))
    weights = np.exp(np.where(seen, scores, -np.inf))
    weights /= weights.sum(-1, keepdims=True)
    answer: NDArray[np.float64] = np.einsum("htn,nhd->thd", weights, value).reshape(TOKENS, -1)
    return answer


@pytest.mark.parametrize("shape", SHAPES)
def test_attention_is_right_and_its_bits_do_not_depend_on_chunks(
    run: Run,
    shape: tuple[int, int, int, int, int, float],
) -> None:
    heads, kv, size = shape[:3]
    qkv = random.standard_normal((TOKENS, (heads + 2 * kv) * size)).astype(np.float32)
    whole = attended(run, shape, qkv, TOKENS)
    assert np.abs(whole - plain(shape, qkv)).max() < 1e-5
    for width in (1, 2, 3, 4, 5, 7, 8, 13):
        assert np.array_equal(attended(run, shape, qkv, width), whole)


class Layer(NamedTuple):
    packed: Floats
    """[panels][inputs][16]."""
    bias: Floats
    outputs: int


def linear(run: Run, layer: Layer, given: Floats, accumulate: int = 0) -> Floats:
    """Every row of the answer begins as ones."""
    out = np.ones((len(given), len(layer.bias)), np.float32)
    op = Op(
        kind=Kind.LINEAR,
        accumulate=accumulate,
        n=layer.outputs,
        k=given.shape[1],
        in_stride=given.shape[1],
        out_stride=out.shape[1],
        in_=given.ctypes.data,
        out=out.ctypes.data,
        weight=layer.packed.ctypes.data,
        bias=layer.bias.ctypes.data,
    )
    run(op, Batch(tokens=len(given), threads=1))
    return out


@pytest.mark.parametrize("accumulate", [0, 1])
@pytest.mark.parametrize(("outputs", "inputs"), [(100, 32), (512, 256), (96, 40)])
def test_a_row_of_a_linear_layer_has_the_same_bits_among_any_number(
    run: Run, outputs: int, inputs: int, accumulate: int
) -> None:
    panels = -(-outputs // 16)
    weight = np.zeros((panels * 16, inputs), np.float32)
    weight[:outputs] = random.standard_normal((outputs, inputs))
    packed = np.ascontiguousarray(weight.reshape(panels, 16, inputs).transpose(0, 2, 1))
    bias = random.standard_normal(panels * 16).astype(np.float32)
    given = random.standard_normal((40, inputs)).astype(np.float32)
    layer = Layer(packed, bias, outputs)
    whole = linear(run, layer, given, accumulate)
    assert np.allclose(whole, given @ weight.T + bias + accumulate, atol=1e-4)
    for rows in range(1, 40):
        fewer = linear(run, layer, given[:rows], accumulate)
        assert np.array_equal(fewer, whole[:rows])


@pytest.mark.skipif(platform.machine() != "x86_64", reason="x86-64 has several levels")
def test_the_library_of_an_image_has_the_same_bits_on_either_level(tmp_path: Path) -> None:
    library()  # OpenMP with it
    make_portable(tmp_path / "decoder.so")
    made = ctypes.CDLL(str(tmp_path / "decoder.so"))
    levels = [made.penstock_run, made.penstock_run_v3]
    if "avx512vl" in Path("/proc/cpuinfo").read_text().split():
        levels.append(made.penstock_run_v4)
    packed = random.standard_normal((7, 48, 16)).astype(np.float32)
    layer, given = (
        Layer(packed, np.zeros(112, np.float32), 112),
        random.standard_normal((23, 48)).astype(np.float32),
    )
    qkv = random.standard_normal((TOKENS, 16 * 32)).astype(np.float32)
    found = [
        (
            linear(runs(level), layer, given),
            attended(runs(level), (8, 4, 32, 16, 0, 0.0), qkv, 5),
        )
        for level in levels
    ]
    assert all(np.array_equal(one, other) for one, other in zip(found[0], found[1], strict=True))
    assert all(np.array_equal(one, other) for one, other in zip(found[0], found[-1], strict=True))
