"""The request to stop a program, which may come while the program is still being imported.

Process 1 of a container ignores a SIGTERM that it has no handler for: without `remember`, a pod that is deleted while its
program starts would stay for its whole grace period.
"""

import signal
from collections.abc import Callable
from types import FrameType
from typing import Final

SIGNALS: Final = (signal.SIGTERM, signal.SIGINT)
_early: list[int] = []
"""Signals that came before `on_stop`."""


def remember() -> None:
    """Keep a SIGTERM for `on_stop`. To be called before the imports of the program."""
    signal.signal(signal.SIGTERM, _keep)


def on_stop(
    add_signal_handler: Callable[[int, Callable[[], None]], None], stop: Callable[[], None]
) -> None:
    """Let SIGTERM and SIGINT call `stop`, by the event loop's `add_signal_handler`; at once if a SIGTERM came earlier."""
    for number in SIGNALS:
        add_signal_handler(number, stop)
    if _early:
        stop()


def _keep(number: int, _: FrameType | None) -> None:
    _early.append(number)
