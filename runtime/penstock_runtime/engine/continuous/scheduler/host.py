"""Blocks in host memory, for sequences that are swapped out: free or taken, nothing else."""


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
