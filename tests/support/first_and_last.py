"""What the processes of one test run do once: in the first that needs it, and after the last."""

import fcntl
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from pathlib import Path


@contextmanager
def first_and_last(
    folder: Path, begin: Callable[[], None], end: Callable[[], None]
) -> Iterator[None]:
    """Call `begin` in the first process that enters, and `end` in the last that leaves; others wait meanwhile.

    `folder` is shared by these processes and new for each run. If `begin` raises, the next process calls it again.
    """
    with _counted(folder, 1) as users:
        if users == 1:
            begin()
    try:
        yield
    finally:
        with _counted(folder, -1) as users:
            if not users:
                end()


@contextmanager
def _counted(folder: Path, change: int) -> Iterator[int]:
    """Change the number of users, and keep other processes from it meanwhile."""
    with (folder / "users").open("a+") as file:
        fcntl.flock(file, fcntl.LOCK_EX)
        file.seek(0)
        users = int(file.read() or 0) + change
        yield users
        file.truncate(0)
        file.write(str(users))
