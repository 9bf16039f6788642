"""Seed and budget of a fuzzer, from the environment.

`PENSTOCK_FUZZ_SEED` repeats a run; `PENSTOCK_FUZZ_COUNT` and `PENSTOCK_FUZZ_SECONDS` replace a fuzzer's own count.
"""

import os
import secrets
import time
from collections.abc import Iterator
from random import Random


class Fuzz:
    """Seed and round counter of one fuzzer run; prints the seed before the first round and the rate after the last."""

    def __init__(self, name: str, count: int, seed: int | None = None) -> None:
        """`count` is the number of rounds; `seed` is the fixed seed of a short run, None for a random one."""
        given = os.environ.get("PENSTOCK_FUZZ_SEED")
        self.seed = int(given) if given else secrets.randbits(32) if seed is None else seed
        self.random = Random(self.seed)  # noqa: S311 - nothing here is a secret
        self.done = 0
        self._name = name
        self._count = int(os.environ.get("PENSTOCK_FUZZ_COUNT") or count) if seed is None else count
        seconds = os.environ.get("PENSTOCK_FUZZ_SECONDS") if seed is None else None
        self._seconds = float(seconds) if seconds else None

    def rounds(self) -> Iterator[int]:
        """Yield the number of each round."""
        print(f"\n{self._name}: PENSTOCK_FUZZ_SEED={self.seed}", flush=True)
        began = time.monotonic()
        while self._goes_on(time.monotonic() - began):
            yield self.done
            self.done += 1
        seconds = time.monotonic() - began
        rate = self.done / max(seconds, 1e-9)
        print(f"{self._name}: {self.done} in {seconds:.1f} s, {rate:.0f} a second", flush=True)

    def where(self) -> str:
        """Return the seed and the round, for the message of a failure."""
        return f"{self._name}: PENSTOCK_FUZZ_SEED={self.seed}, round {self.done}"

    def _goes_on(self, seconds: float) -> bool:
        return seconds < self._seconds if self._seconds is not None else self.done < self._count
