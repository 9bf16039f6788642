"""The C file: right to rounding, and the same bits whatever else is computed beside a token."""

import ctypes
import platform
from itertools import pairwise
from pathlib import Path
from typing import Any, NamedTuple

import numpy as np
import pytest
import torch
from numpy.typing import NDArray

from penstock_runtime.generation.step.blueprint import Linear
from penstock_runtime.generation.step.native.abi import UNITS, Batch, Kind, Op, function
from penstock_runtime.generation.step.native.build import library, make_portable
from penstock_runtime.generation.step.native.decoder import pack

Floats = NDArray[np.float32]
TYPES = list(UNITS)
ROUNDING = {torch.float32: 1e-5, torch.bfloat16: 2e-2}
TOKENS = 61
SHAPES = [  # heads, kv heads, size, block, window, softcap
    (4, 4, 8, 8, 0, 0.0),
    (4, 2, 8, 8, 12, 0.0),
    (8, 4, 32, 16, 0, 0.0),
    (3, 1, 64, 16, 0, 0.0),
    (12, 4, 64, 16, 20, 30.0),
    (7, 7, 40, 24, 0, 0.0),
]


@pytest.fixture
def random() -> np.random.Generator:
    """The numbers of one test, the same whatever tests ran before it."""
    return np.random.default_rng(0)


class Run(NamedTuple):
    """One function of a library, and the type that it multiplies in."""

    call: Any
    dtype: torch.dtype

    def __call__(self, op: Op, batch: Batch) -> None:
        self.call.argtypes = [ctypes.c_void_p, ctypes.c_int64, ctypes.c_void_p]
        self.call(ctypes.addressof(op), 1, ctypes.addressof(batch))

    def as_units(self, numbers: Floats) -> torch.Tensor:
        """Return `numbers` rounded to what is multiplied."""
        return torch.from_numpy(numbers).to(self.dtype).contiguous()

    def rounded(self, numbers: Floats) -> Floats:
        back: Floats = self.as_units(numbers).float().numpy()
        return back


@pytest.fixture(scope="module", params=TYPES, ids=str)
def run(request: pytest.FixtureRequest) -> Run:
    return Run(function(library(), "run", request.param), request.param)


def attended(
    run: Run, shape: tuple[int, int, int, int, int, float], qkv: Floats, width: int
) -> Floats:
    """Feed all tokens in chunks of `width`, over blocks in descending order that are full of NaN at first."""
    heads, kv, size, block, window, softcap = shape
    blocks, unit = -(-TOKENS // block), UNITS[run.dtype]
    keys, values = torch.full((2, blocks, kv * size * block), torch.nan, dtype=run.dtype)
    scores = np.empty(max(heads, 4 * heads // kv) * (TOKENS + 2 * block + size), np.float32)
    tables = np.arange(blocks, dtype=np.int32)[::-1].copy()
    out = torch.empty((TOKENS, heads * size), dtype=run.dtype)
    for begin, end in pairwise([*range(0, TOKENS, width), TOKENS]):
        fed, at = qkv[begin:end].copy(), np.arange(begin, end)
        slots = tables[at // block].astype(np.int64) * block + at % block
        owners, starts = np.zeros_like(at), np.array([0, end - begin])
        op = Op(
            kind=Kind.ATTEND,
            in_stride=fed.shape[1],
            out_stride=out.shape[1] // unit,
            in_=fed.ctypes.data,
            out=out[begin:].data_ptr(),
            scale=size**-0.5,
            softcap=softcap,
            window=window,
            keys=keys.data_ptr(),
            values=values.data_ptr(),
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
    answer: Floats = out.float().numpy()
    return answer


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
    random: np.random.Generator,
    shape: tuple[int, int, int, int, int, float],
) -> None:
    heads, kv, size = shape[:3]
    qkv = random.standard_normal((TOKENS, (heads + 2 * kv) * size)).astype(np.float32)
    whole = attended(run, shape, qkv, TOKENS)
    assert np.abs(whole - plain(shape, run.rounded(qkv))).max() < ROUNDING[run.dtype]
    for width in (1, 2, 3, 4, 5, 7, 8, 13):
        assert np.array_equal(attended(run, shape, qkv, width), whole)


class Layer(NamedTuple):
    weight: Floats
    """[outputs, inputs]."""
    bias: Floats
    """[outputs, padded to whole panels]."""

    @staticmethod
    def drawn(random: np.random.Generator, outputs: int, inputs: int) -> "Layer":
        padded = -(-outputs // 16) * 16
        weight = random.standard_normal((outputs, inputs)).astype(np.float32)
        return Layer(weight, random.standard_normal(padded).astype(np.float32))


def linear(run: Run, layer: Layer, given: Floats, accumulate: int = 0) -> Floats:
    """Every row of the answer begins as ones."""
    out = np.ones((len(given), len(layer.bias)), np.float32)
    packed, _ = pack(Linear(run.as_units(layer.weight), None))
    rows = run.as_units(given)
    op = Op(
        kind=Kind.LINEAR,
        accumulate=accumulate,
        n=len(layer.weight),
        k=given.shape[1],
        in_stride=given.shape[1] // UNITS[run.dtype],
        out_stride=out.shape[1],
        in_=rows.data_ptr(),
        out=out.ctypes.data,
        weight=packed.data_ptr(),
        bias=layer.bias.ctypes.data,
    )
    run(op, Batch(tokens=len(given), threads=1))
    return out[:, : len(layer.weight)]


@pytest.mark.parametrize("accumulate", [0, 1])
@pytest.mark.parametrize(("outputs", "inputs"), [(100, 32), (512, 256), (96, 40)])
def test_a_row_of_a_linear_layer_has_the_same_bits_among_any_number(
    run: Run, random: np.random.Generator, outputs: int, inputs: int, accumulate: int
) -> None:
    layer = Layer.drawn(random, outputs, inputs)
    given = random.standard_normal((40, inputs)).astype(np.float32)
    whole = linear(run, layer, given, accumulate)
    product = run.rounded(given) @ run.rounded(layer.weight).T
    assert np.allclose(whole, product + layer.bias[:outputs] + accumulate, atol=1e-4)
    for rows in range(1, 40):
        fewer = linear(run, layer, given[:rows], accumulate)
        assert np.array_equal(fewer, whole[:rows])


def normed(run: Run, given: Floats) -> Floats:
    """Rows of ones' norm, as what a linear layer takes."""
    out = torch.empty(given.shape, dtype=run.dtype)
    ones = np.ones(given.shape[1], np.float32)
    op = Op(
        kind=Kind.RMS_NORM,
        as_units=1,
        n=given.shape[1],
        in_stride=given.shape[1],
        out_stride=given.shape[1] // UNITS[run.dtype],
        in_=given.ctypes.data,
        out=out.data_ptr(),
        weight=ones.ctypes.data,
    )
    run(op, Batch(tokens=len(given), threads=1))
    answer: Floats = out.float().numpy()
    return answer


def test_what_is_to_be_multiplied_is_rounded_as_torch_rounds_and_keeps_what_is_no_number(
    run: Run,
    random: np.random.Generator,
) -> None:
    given = random.standard_normal((7, 48)).astype(np.float32)
    given[2, 5] = np.nan
    scale = np.sqrt(np.mean(given**2, axis=1, keepdims=True, dtype=np.float64))
    wanted = run.rounded((given / scale).astype(np.float32))
    assert np.allclose(normed(run, given), wanted, rtol=2**-7, atol=0, equal_nan=True)


@pytest.mark.parametrize("dtype", TYPES)
@pytest.mark.skipif(platform.machine() != "x86_64", reason="x86-64 has several levels")
def test_the_library_of_an_image_answers_alike_on_every_level(
    tmp_path: Path, random: np.random.Generator, dtype: torch.dtype
) -> None:
    """To the bit, but for the instruction that multiplies bfloat16: its roundings are its own."""
    library()  # OpenMP with it
    make_portable(tmp_path / "decoder.so")
    made = ctypes.CDLL(str(tmp_path / "decoder.so"))
    name, has = function(made, "run", dtype).__name__, Path("/proc/cpuinfo").read_text().split()
    levels = [f"{name}_v3"] + [f"{name}_v4"] * ("avx512vl" in has)
    layer = Layer.drawn(random, 112, 48)
    given = random.standard_normal((23, 48)).astype(np.float32)
    qkv = random.standard_normal((TOKENS, 16 * 32)).astype(np.float32)

    def answers(level: str) -> list[Floats]:
        run = Run(made[level], dtype)
        shape = (8, 4, 32, 16, 0, 0.0)
        return [linear(run, layer, given), attended(run, shape, qkv, 5), normed(run, given)]

    found = [answers(level) for level in levels]
    assert all(np.array_equal(one, other) for one, other in zip(found[0], found[-1], strict=True))
    for one, chosen in zip(found[0], answers(name), strict=True):
        assert np.abs(one - chosen).max() <= (0 if dtype == torch.float32 else 2e-2)
