"""The names of full KV blocks: equal names hold equal keys and values, so one request's serve another.

A block's name hashes its parent's name and its own token ids; the root hashes whatever else decides what a
token's keys and values are, and who may share them.
"""

from array import array
from collections.abc import Sequence
from hashlib import blake2b

BlockHash = bytes

_BYTES = 16
"""A collision would hand one request another's context: 128 bits make that a matter of the sun's lifetime."""


def root_hash(model_revision: str, adapter: str = "", salt: str = "") -> BlockHash:
    """Return the parent of first blocks: tenants with different `salt` share nothing."""
    state = blake2b(digest_size=_BYTES)
    for part in (model_revision, adapter, salt):
        encoded = part.encode()
        state.update(len(encoded).to_bytes(8, "little"))
        state.update(encoded)
    return state.digest()


def child_hash(parent: BlockHash, ids: Sequence[int]) -> BlockHash:
    """Return the name of the block that holds `ids` after everything that `parent` names."""
    return blake2b(parent + array("i", ids).tobytes(), digest_size=_BYTES).digest()


class HashChain:
    """The names of one sequence's full blocks, extended as it grows; each token is hashed once."""

    __slots__ = ("_block_tokens", "_hashes", "_root")

    def __init__(self, root: BlockHash, block_tokens: int) -> None:
        self._root = root
        self._block_tokens = block_tokens
        self._hashes: list[BlockHash] = []

    def upto(self, ids: Sequence[int], blocks: int) -> list[BlockHash]:
        """Return the names of the first `blocks` blocks of `ids`, which only ever grew at its end.

        `ids` has at least `blocks * block_tokens` ids.
        """
        hashes, size = self._hashes, self._block_tokens
        parent = hashes[-1] if hashes else self._root
        for n in range(len(hashes), blocks):
            parent = child_hash(parent, ids[n * size : (n + 1) * size])
            hashes.append(parent)
        return hashes[:blocks]
