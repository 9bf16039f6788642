"""Python's garbage collector in a process that holds a model."""

import gc


def spare_the_collector() -> None:
    """Keep what was loaded out of garbage collection, and collect seldom.

    A full pass over torch's objects takes 100 ms, and a request makes no cycles.
    """
    gc.collect()
    gc.freeze()
    gc.set_threshold(20_000, 20, 100)
