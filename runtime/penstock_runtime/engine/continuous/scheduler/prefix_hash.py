"""Hashes of full KV blocks: equal hashes mean equal keys and values, so requests can share the blocks.

A block's hash covers its parent's hash and its own token ids; the root covers everything else that determines keys
and values, and the namespace that may share them.
"""

from array import array
from collections.abc import Sequence
from hashlib import blake2b

BlockHash = bytes

_BYTES = 16
"""128 bits: a collision would give one request another's context."""


def root_hash(model_revision: str, adapter: str = "", salt: str = "") -> BlockHash:
    """Return the parent hash of first blocks; namespaces with different `salt` share nothing."""
    state = blake2b(digest_size=_BYTES)
    for part in (model_revision, adapter, salt):
        encoded = part.encode()
        state.update(len(encoded).to_bytes(8, "little"))
        state.update(encoded)
    return state.digest()


def child_hash(parent: BlockHash, ids: Sequence[int]) -> BlockHash:
    """Return the hash of the block with `ids` that follows the block of `parent`."""
    return blake2b(parent + array("i", ids).tobytes(), digest_size=_BYTES).digest()


class HashChain:
    """The hashes of one sequence's full blocks, extended as it grows; each token is hashed once."""

    __slots__ = ("_block_tokens", "_hashes", "_root")

    def __init__(self, root: BlockHash, block_tokens: int) -> None:
        self._root = root
        self._block_tokens = block_tokens
        self._hashes: list[BlockHash] = []

    def first(self, ids: Sequence[int], blocks: int) -> list[BlockHash]:
        """Return the hashes of the first `blocks` blocks of `ids`, which may only have been appended to.

        `ids` has at least `blocks * block_tokens` ids.
        """
        hashes, size = self._hashes, self._block_tokens
        parent = hashes[-1] if hashes else self._root
        for n in range(len(hashes), blocks):
            parent = child_hash(parent, ids[n * size : (n + 1) * size])
            hashes.append(parent)
        return hashes[:blocks]
