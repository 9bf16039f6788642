"""`PrefixCache`: finds blocks by a hash of their contents, and evicts unused ones in order of last use.

Equal hashes mean equal keys and values, so requests can share the blocks. A block's hash covers its parent's hash and
its own token ids; the root covers everything else that determines keys and values, and the salt of the
namespace within which blocks are shared.
"""

from array import array
from collections.abc import Sequence
from hashlib import blake2b

BlockHash = bytes

_BYTES = 16
"""128 bits: a collision would give a request the context of another one."""


def root_hash(model_revision: str, adapter: str = "", salt: str = "") -> BlockHash:
    """Return the parent hash of a sequence's first block; namespaces with different `salt` share no blocks."""
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
        """Return the hashes of the first `blocks` blocks of `ids`.

        `ids` only grows at its end from call to call, and has at least `blocks * block_tokens` ids.
        """
        hashes, size = self._hashes, self._block_tokens
        parent = hashes[-1] if hashes else self._root
        for n in range(len(hashes), blocks):
            parent = child_hash(parent, ids[n * size : (n + 1) * size])
            hashes.append(parent)
        return hashes[:blocks]


class PrefixCache:
    """Owns the hashes of published blocks, and the list of those that no sequence uses."""

    __slots__ = ("_by_hash", "evictable", "hashes")

    def __init__(self) -> None:
        self._by_hash: dict[BlockHash, int] = {}
        self.hashes: dict[int, BlockHash] = {}
        """Hash of each published block."""
        self.evictable: dict[int, None] = {}
        """Published blocks that no sequence uses, the least recently used first."""

    def find(self, hashes: Sequence[BlockHash]) -> list[int]:
        """Return the blocks of the longest prefix of `hashes` in which each has a published block."""
        blocks = []
        for block_hash in hashes:
            block = self._by_hash.get(block_hash)
            if block is None:
                break
            blocks.append(block)
        return blocks

    def publish(self, block: int, block_hash: BlockHash) -> bool:
        """Publish `block` under `block_hash`; return False if another block already has that hash."""
        if self._by_hash.setdefault(block_hash, block) != block:
            return False
        self.hashes[block] = block_hash
        return True

    def keep(self, block: int) -> None:
        """Mark a published block as unused; it is the last in the order of eviction."""
        self.evictable[block] = None

    def revive(self, block: int) -> None:
        """Mark `block` as used again, if it was unused."""
        self.evictable.pop(block, None)

    def evict(self) -> int:
        """Return the least recently used of the unused blocks, and remove its hash."""
        block = next(iter(self.evictable))
        del self.evictable[block]
        del self._by_hash[self.hashes.pop(block)]
        return block

    def check(self) -> None:
        """Raise AssertionError unless every hash finds its block and every unused block has a hash."""
        if {block: block_hash for block_hash, block in self._by_hash.items()} != self.hashes:
            raise AssertionError("the maps from block to hash and from hash to block disagree")
        if not self.evictable.keys() <= self.hashes.keys():
            raise AssertionError("a cached block has no hash")
