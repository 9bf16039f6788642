"""`BlockManager`: the state of every KV block. It handles block numbers, never tensors.

Every block is in exactly one state: free; used, by `refs` sequences; cached, unused but with contents that
`PrefixCache` can still match; or copying to host memory, after which it is released.
`free + used + cached + copying == total` always holds: `check` verifies it.

Blocks in host memory, for swapped-out sequences, are free or allocated.
"""

from collections.abc import Iterable, Sequence

from penstock_runtime.engine.continuous.scheduler.prefix_cache import BlockHash, PrefixCache


class BlocksExhausted(Exception):
    """An allocation exceeds the free and cached blocks."""


class BlockManager:
    """Counts the references to `total` blocks; every operation is O(blocks it names)."""

    __slots__ = ("_copying", "_free", "_refs", "prefix", "total")

    def __init__(self, total: int) -> None:
        self.total = total
        self.prefix = PrefixCache()
        self._free = list(range(total - 1, -1, -1))
        self._refs: dict[int, int] = {}
        self._copying: set[int] = set()

    # -- counts

    @property
    def free(self) -> int:
        """Blocks without contents."""
        return len(self._free)

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
        """Blocks that `allocate` can return now: the free and the cached ones."""
        return len(self._free) + len(self.prefix.evictable)

    def count_in_use(self, blocks: Iterable[int]) -> int:
        """Return how many of the published `blocks` are in use, so that sharing them takes no available block."""
        return sum(block in self._refs for block in blocks)

    def count_unrecoverable(self, blocks: Iterable[int]) -> int:
        """Return how many of `blocks` are neither shared nor published: after a release they must be recomputed."""
        refs, published = self._refs, self.prefix.hashes
        return sum(refs[block] == 1 and block not in published for block in blocks)

    # -- changes

    def allocate(self, count: int) -> list[int]:
        """Return `count` blocks with one reference each; evicts cached blocks if too few are free.

        Raises:
            BlocksExhausted: fewer are available; nothing has changed.
        """
        if count > self.available:
            raise BlocksExhausted(f"{count} blocks requested, {self.available} available")
        free, prefix = self._free, self.prefix
        blocks = [free.pop() if free else prefix.evict() for _ in range(count)]
        for block in blocks:
            self._refs[block] = 1
        return blocks

    def share(self, blocks: Iterable[int]) -> None:
        """Add a reference to each of `blocks`, which are used or cached."""
        for block in blocks:
            self.prefix.revive(block)
            self._refs[block] = self._refs.get(block, 0) + 1

    def publish(self, block: int, block_hash: BlockHash) -> bool:
        """Publish `block`, whose contents are final, under `block_hash`; return whether it is published.

        It is not if another block already has that hash, or if the block is being copied and no longer used.
        """
        return block in self._refs and self.prefix.publish(block, block_hash)

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
        """Mark one sequence's `blocks` as copying until the plan that copies them to the host settles.

        Shared and published blocks stay in use during the copy, because they may gain references.
        """
        for block in blocks:
            if self._refs[block] == 1 and block not in self.prefix.hashes:
                del self._refs[block]
                self._copying.add(block)

    def end_copying(self, blocks: Sequence[int]) -> None:
        """Release `blocks`, whose copy is complete, as `release` does."""
        for block in reversed(blocks):
            if block in self._copying:
                self._copying.remove(block)
                self._cache_or_free(block)
            else:
                self.release((block,))

    def _cache_or_free(self, block: int) -> None:
        if block in self.prefix.hashes:
            self.prefix.keep(block)
        else:
            self._free.append(block)

    def check(self) -> None:
        """Raise AssertionError unless every block is in exactly one state and every hash finds its block."""
        states = [*self._free, *self._refs, *self.prefix.evictable, *self._copying]
        if sorted(states) != list(range(self.total)):
            raise AssertionError(f"of {self.total} blocks, {len(states)} are accounted for")
        if not self.prefix.hashes.keys().isdisjoint(self._free):
            raise AssertionError("a free block has a hash")
        if any(refs < 1 for refs in self._refs.values()):
            raise AssertionError("a used block has no reference")
        self.prefix.check()


class HostBlocks:
    """A bounded pool of host blocks; when it is exhausted, preemption falls back to recomputation."""

    __slots__ = ("_free", "total")

    def __init__(self, total: int) -> None:
        self.total = total
        self._free = list(range(total - 1, -1, -1))

    @property
    def free(self) -> int:
        """Return the number of free blocks."""
        return len(self._free)

    def allocate(self, count: int) -> list[int]:
        """Allocate `count` blocks; the caller has checked that they are free."""
        return [self._free.pop() for _ in range(count)]

    def release(self, blocks: list[int]) -> None:
        """Free `blocks`."""
        self._free.extend(blocks)

    def check(self) -> None:
        """Raise AssertionError if a block was released twice or is not of this pool."""
        if len(set(self._free)) != len(self._free) or not set(self._free) <= set(range(self.total)):
            raise AssertionError("a host block was released twice")
