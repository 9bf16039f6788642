"""The block ledger: sole owner of which KV block is whose. Knows numbers, never tensors.

Every block is in exactly one state: free; used, by `refs` sequences; cached, by nobody but with contents that
a name still finds, the least recently used given up first; or copying to host memory, after which it is
released. `free + used + cached + copying == total`, always: `check` says so.

Blocks in host memory, for sequences that are swapped out: free or taken, nothing else.
"""

from collections.abc import Iterable, Sequence

from penstock_runtime.engine.continuous.scheduler.prefix_hash import BlockHash


class BlocksExhausted(Exception):
    """More blocks were asked for than are free or cached."""


class BlockManager:
    """Counts `total` blocks of `block_tokens` tokens each; every operation is O(blocks named)."""

    __slots__ = (
        "_cached",
        "_copying",
        "_free",
        "_held",
        "_names",
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
        """In order of their last use: a dict keeps the order of insertion."""
        self._copying: set[int] = set()
        self._names: dict[int, BlockHash] = {}
        self._held: dict[BlockHash, int] = {}

    # -- what there is

    @property
    def free(self) -> int:
        """Blocks that hold nothing."""
        return len(self._free)

    @property
    def cached(self) -> int:
        """Blocks that nobody uses, but whose contents may serve again."""
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
        """Blocks that `allocate` could give now."""
        return len(self._free) + len(self._cached)

    def blocks_for(self, tokens: int) -> int:
        """Return how many blocks `tokens` tokens take."""
        return -(-tokens // self.block_tokens)

    def found(self, names: Sequence[BlockHash]) -> int:
        """Return how many of the first `names` are held, without a gap."""
        count = 0
        for name in names:
            if name not in self._held:
                break
            count += 1
        return count

    def found_in_use(self, names: Sequence[BlockHash]) -> int:
        """Return how many of `names`, all of which are held, cost no available block to share."""
        return sum(self._held[name] in self._refs for name in names)

    def lost_if_released(self, blocks: Iterable[int]) -> int:
        """Return how many of `blocks` would have to be computed again: nobody shares them, no name finds them."""
        return sum(self._refs[block] == 1 and block not in self._names for block in blocks)

    def shared(self, block: int) -> bool:
        """Return whether more than one sequence uses `block`: it must be copied before it is written."""
        return self._refs[block] > 1

    # -- changes

    def allocate(self, count: int) -> list[int]:
        """Return `count` blocks, now used once; cached ones are given up as far as free ones do not suffice.

        Raises:
            BlocksExhausted: there are not so many; nothing has changed.
        """
        if count > self.available:
            raise BlocksExhausted(f"{count} blocks asked for, {self.available} available")
        taken = [self._free.pop() if self._free else self._give_up() for _ in range(count)]
        for block in taken:
            self._refs[block] = 1
        return taken

    def share(self, names: Sequence[BlockHash]) -> list[int]:
        """Return the blocks of `names`, all of which are held, each used once more."""
        blocks = [self._held[name] for name in names]
        self.share_blocks(blocks)
        return blocks

    def share_blocks(self, blocks: Iterable[int]) -> None:
        """Let one more sequence use `blocks`, which are used or cached."""
        for block in blocks:
            self._cached.pop(block, None)
            self._refs[block] = self._refs.get(block, 0) + 1

    def publish(self, block: int, name: BlockHash) -> bool:
        """Let `name` find the used `block`, whose contents are settled; return whether it does.

        It does not if another block already answers to `name`: the first one stays; nor if the block is
        used no more, but being copied.
        """
        if block not in self._refs or self._held.setdefault(name, block) != block:
            return False
        self._names[block] = name
        return True

    def release(self, blocks: Sequence[int]) -> None:
        """Let one sequence use `blocks`, given from its first to its last, no more.

        The tail goes first, so that what is given up first is what fewest share.
        """
        for block in reversed(blocks):
            left = self._refs[block] - 1
            if left:
                self._refs[block] = left
            else:
                del self._refs[block]
                self._put_away(block)

    def begin_copying(self, blocks: Iterable[int]) -> None:
        """Hold one sequence's `blocks` until their copy to host memory has settled.

        Those that others share, or that a name finds, stay in use meanwhile: they may gain users.
        """
        for block in blocks:
            if self._refs[block] == 1 and block not in self._names:
                del self._refs[block]
                self._copying.add(block)

    def end_copying(self, blocks: Sequence[int]) -> None:
        """Release `blocks`, whose copy has settled, as `release` does."""
        for block in reversed(blocks):
            if block in self._copying:
                self._copying.remove(block)
                self._put_away(block)
            else:
                self.release((block,))

    def clear_cache(self) -> None:
        """Give up everything that is cached."""
        while self._cached:
            self._free.append(self._give_up())

    def _put_away(self, block: int) -> None:
        if block in self._names:
            self._cached[block] = None
        else:
            self._free.append(block)

    def _give_up(self) -> int:
        """Return the least recently used cached block, which no name finds any more."""
        block = next(iter(self._cached))
        del self._cached[block]
        del self._held[self._names.pop(block)]
        return block

    def check(self) -> None:
        """Raise AssertionError unless every block is in exactly one state and every name finds its block."""
        states = [*self._free, *self._refs, *self._cached, *self._copying]
        if sorted(states) != list(range(self.total)):
            raise AssertionError(f"of {self.total} blocks, {len(states)} are accounted for")
        if {block: name for name, block in self._held.items()} != self._names:
            raise AssertionError("a block's name and a name's block disagree")
        if not set(self._names).isdisjoint(self._free):
            raise AssertionError("a free block has a name")
        if any(refs < 1 for refs in self._refs.values()):
            raise AssertionError("a used block is used by nobody")


class HostBlocks:
    """Counts a bounded pool; a full one means that preemption recomputes."""

    __slots__ = ("_free", "total")

    def __init__(self, total: int) -> None:
        self.total = total
        self._free = list(range(total - 1, -1, -1))

    @property
    def free(self) -> int:
        """Return how many hold nothing."""
        return len(self._free)

    def allocate(self, count: int) -> list[int]:
        """Return `count` free blocks, of which there must be as many."""
        return [self._free.pop() for _ in range(count)]

    def release(self, blocks: list[int]) -> None:
        """Take `blocks` back."""
        self._free.extend(blocks)

    def check(self) -> None:
        """Raise AssertionError if a block was released twice or is none of ours."""
        if len(set(self._free)) != len(self._free) or not set(self._free) <= set(range(self.total)):
            raise AssertionError("a host block was released twice")
