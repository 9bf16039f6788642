"""The forms of attention that a device's kernels take give the same values as the masked one."""

import pytest
import torch

from penstock_runtime.models.decoders.attention.base import LayerRule
from penstock_runtime.models.decoders.attention.sdpa import Masks, attend, attend_folded

RULE = LayerRule(scaling=0.3)


def heads(rows: int, count: int, tokens: int, seed: int) -> torch.Tensor:
    generator = torch.Generator().manual_seed(seed)
    return torch.randn((rows, count, tokens, 8), generator=generator, dtype=torch.float64)


@pytest.mark.parametrize("kv_heads", [1, 2, 6])
def test_a_prompt_from_its_beginning_needs_no_mask(kv_heads: int) -> None:
    query = heads(1, 6, 9, 0)
    key, value = heads(1, kv_heads, 9, 1), heads(1, kv_heads, 9, 2)
    at = torch.arange(9)
    mask = Masks((at[:, None] - at)[None]).of(None)[:, None]
    torch.testing.assert_close(
        attend(query, key, value, None, RULE), attend(query, key, value, mask, RULE)
    )


@pytest.mark.parametrize("window", [None, 4])
@pytest.mark.parametrize("kv_heads", [1, 2])
def test_heads_that_share_keys_are_further_queries(kv_heads: int, window: int | None) -> None:
    query = heads(2, 6, 3, 0)
    key, value = heads(2, kv_heads, 9, 1), heads(2, kv_heads, 9, 2)
    at = torch.tensor([[6, 7, 8], [2, 3, 4]])
    mask = Masks(at[:, :, None] - torch.arange(9)).of(window)[:, None]
    torch.testing.assert_close(
        attend_folded(query, key, value, mask, RULE.scaling), attend(query, key, value, mask, RULE)
    )
