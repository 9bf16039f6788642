"""The block manager: sole owner of the state of every KV block. It handles block numbers, never tensors.

Every block is in exactly one state: free; used, by `refs` sequences; cached, unused but with contents that a hash
still finds, evicted in order of last use; or copying to host memory, after which it is released.
`free + used + cached + copying == total` always holds: `check` verifies it.

Blocks in host memory, for swapped-out sequences, are free or taken.
"""

from collections.abc import Iterable, Sequence

from penstock_runtime.engine.continuous.scheduler.prefix_hash import BlockHash


class BlocksExhausted(Exception):
    """An allocation exceeds the free and cached blocks."""


class BlockManager:
    """Counts `total` blocks of `block_tokens` tokens each; every operation is O(blocks it names)."""

    __slots__ = (
        "_by_hash",
        "_cached",
        "_copying",
        "_free",
        "_hashes",
        "_refs",
        "block_tokens",
        "total",
    )

    def __init__(self, total: int, block_tokens: int) -> None:
        self.total = total
        self.block_tokens = block_tokens
        self._free = list(range(total - 1, -1, -1))
        self._refs: dict[int, int] = {}
        self._cached: dict[int, None] = {}
        """In order of last use: a dict keeps the order of insertion."""
        self._copying: set[int] = set()
        self._hashes: dict[int, BlockHash] = {}
        """Hash of each published block."""
        self._by_hash: dict[BlockHash, int] = {}

    # -- counts

    @property
    def free(self) -> int:
        """Blocks without contents."""
        return len(self._free)

    @property
    def cached(self) -> int:
        """Unused blocks whose contents the prefix cache keeps."""
        return len(self._cached)

    @property
    def used(self) -> int:
        """Blocks that at least one sequence reads or writes."""
        return len(self._refs)

    @property
    def copying(self) -> int:
        """Blocks that are being copied to host memory."""
        return len(self._copying)

    @property
    def available(self) -> int:
        """Blocks that `allocate` can return now."""
        return len(self._free) + len(self._cached)

    def blocks_for(self, tokens: int) -> int:
        """Return how many blocks `tokens` tokens take."""
        return -(-tokens // self.block_tokens)

    def count_hits(self, hashes: Sequence[BlockHash]) -> int:
        """Return the length of the longest prefix of `hashes` with a published block each."""
        count = 0
        for block_hash in hashes:
            if block_hash not in self._by_hash:
                break
            count += 1
        return count

    def count_in_use(self, hashes: Sequence[BlockHash]) -> int:
        """Return how many published blocks of `hashes` are in use: sharing them takes no available block."""
        return sum(self._by_hash[block_hash] in self._refs for block_hash in hashes)

    def count_unrecoverable(self, blocks: Iterable[int]) -> int:
        """Return how many of `blocks` are neither shared nor published: after a release they must be recomputed."""
        return sum(self._refs[block] == 1 and block not in self._hashes for block in blocks)

    def shared(self, block: int) -> bool:
        """Return whether more than one sequence uses `block`: it must be copied before it is written."""
        return self._refs[block] > 1

    # -- changes

    def allocate(self, count: int) -> list[int]:
        """Return `count` blocks with one reference each; evicts cached blocks when free ones do not suffice.

        Raises:
            BlocksExhausted: fewer are available; nothing has changed.
        """
        if count > self.available:
            raise BlocksExhausted(f"{count} blocks requested, {self.available} available")
        blocks = [self._free.pop() if self._free else self._evict() for _ in range(count)]
        for block in blocks:
            self._refs[block] = 1
        return blocks

    def share(self, hashes: Sequence[BlockHash]) -> list[int]:
        """Return the published blocks of `hashes`, each with one more reference."""
        blocks = [self._by_hash[block_hash] for block_hash in hashes]
        self.share_blocks(blocks)
        return blocks

    def share_blocks(self, blocks: Iterable[int]) -> None:
        """Add a reference to each of `blocks`, which are used or cached."""
        for block in blocks:
            self._cached.pop(block, None)
            self._refs[block] = self._refs.get(block, 0) + 1

    def publish(self, block: int, block_hash: BlockHash) -> bool:
        """Publish the used `block`, whose contents are final, under `block_hash`; return whether it is.

        It is not where another block has that hash already, which stays; nor where the block is no longer
        used, but being copied.
        """
        if block not in self._refs or self._by_hash.setdefault(block_hash, block) != block:
            return False
        self._hashes[block] = block_hash
        return True

    def release(self, blocks: Sequence[int]) -> None:
        """Remove a reference from each of `blocks`, listed from first to last.

        Releases the tail first, so that the blocks with the longest prefix are evicted first.
        """
        for block in reversed(blocks):
            left = self._refs[block] - 1
            if left:
                self._refs[block] = left
            else:
                del self._refs[block]
                self._cache_or_free(block)

    def begin_copying(self, blocks: Iterable[int]) -> None:
        """Mark one sequence's `blocks` as copying until their copy to host memory has settled.

        Shared and published blocks stay in use meanwhile, since they may gain references.
        """
        for block in blocks:
            if self._refs[block] == 1 and block not in self._hashes:
                del self._refs[block]
                self._copying.add(block)

    def end_copying(self, blocks: Sequence[int]) -> None:
        """Release `blocks`, whose copy has settled, as `release` does."""
        for block in reversed(blocks):
            if block in self._copying:
                self._copying.remove(block)
                self._cache_or_free(block)
            else:
                self.release((block,))

    def clear_cache(self) -> None:
        """Evict all cached blocks."""
        while self._cached:
            self._free.append(self._evict())

    def _cache_or_free(self, block: int) -> None:
        if block in self._hashes:
            self._cached[block] = None
        else:
            self._free.append(block)

    def _evict(self) -> int:
        """Return the least recently used cached block and remove its hash."""
        block = next(iter(self._cached))
        del self._cached[block]
        del self._by_hash[self._hashes.pop(block)]
        return block

    def check(self) -> None:
        """Raise AssertionError unless every block is in exactly one state and every hash finds its block."""
        states = [*self._free, *self._refs, *self._cached, *self._copying]
        if sorted(states) != list(range(self.total)):
            raise AssertionError(f"of {self.total} blocks, {len(states)} are accounted for")
        if {block: block_hash for block_hash, block in self._by_hash.items()} != self._hashes:
            raise AssertionError("the hashes of blocks and the blocks of hashes disagree")
        if not set(self._hashes).isdisjoint(self._free):
            raise AssertionError("a free block has a hash")
        if any(refs < 1 for refs in self._refs.values()):
            raise AssertionError("a used block has no reference")


class HostBlocks:
    """Counts a bounded pool of host blocks; when it is full, preemption recomputes."""

    __slots__ = ("_free", "total")

    def __init__(self, total: int) -> None:
        self.total = total
        self._free = list(range(total - 1, -1, -1))

    @property
    def free(self) -> int:
        """Return the number of free blocks."""
        return len(self._free)

    def allocate(self, count: int) -> list[int]:
        """Return `count` free blocks; there must be as many."""
        return [self._free.pop() for _ in range(count)]

    def release(self, blocks: list[int]) -> None:
        """Free `blocks`."""
        self._free.extend(blocks)

    def check(self) -> None:
        """Raise AssertionError if a block was released twice or is not of this pool."""
        if len(set(self._free)) != len(self._free) or not set(self._free) <= set(range(self.total)):
            raise AssertionError("a host block was released twice")
