"""Draws: the published answers, and nothing but seed, choice and position in them."""

import numpy as np
import pytest

from penstock_runtime.models.decoders.sampling.philox import philox, uniforms

F = 0xFFFFFFFF
PUBLISHED = [  # Random123's kat_vectors, philox4x32 10
    ([0, 0, 0, 0], [0, 0], [0x6627E8D5, 0xE169C58D, 0xBC57AC4C, 0x9B00DBD8]),
    ([F, F, F, F], [F, F], [0x408F276D, 0x41C83B0E, 0xA20BC7C6, 0x6D5451FD]),
    (
        [0x243F6A88, 0x85A308D3, 0x13198A2E, 0x03707344],
        [0xA4093822, 0x299F31D0],
        [0xD16CFE09, 0x94FDCCEB, 0x5001E420, 0x24126EA1],
    ),
]


@pytest.mark.parametrize(("counter", "key", "words"), PUBLISHED)
def test_philox_gives_the_published_words(
    counter: list[int], key: list[int], words: list[int]
) -> None:
    got = philox(np.array([counter], np.uint64), np.array([key], np.uint64))
    assert got[0].tolist() == words


def test_a_draw_does_not_depend_on_its_neighbors() -> None:
    alone = uniforms([7], [1], [42])[0]
    among = uniforms([3, 7, 9], [0, 1, 2], [1, 42, 3])[1]
    assert alone == among


def test_seed_choice_and_position_each_change_the_draw() -> None:
    drawn = uniforms([7, 8, 7, 7, 7 + 2**63], [1, 1, 2, 1, 1], [42, 42, 42, 43, 42])
    assert len(set(drawn.tolist())) == 5


def test_draws_are_uniform() -> None:
    drawn = uniforms([1] * 40_000, [0] * 40_000, list(range(40_000)))
    assert drawn.min() >= 0.0
    assert drawn.max() < 1.0
    counts = np.histogram(drawn, bins=20, range=(0, 1))[0]
    assert ((counts - 2000) ** 2 / 2000).sum() < 43.8  # chi-square, 19 degrees, 0.1 %
