"""The fork server of grammars: `python -m penstock_runtime.engine.continuous.grammar.process SOCKET`, one a pod.

Its standard input holds the tokenizer; it builds the trie once, and forks a worker for each socket that comes. The
workers share the trie. It has one thread and does nothing else, so a fork copies nothing that is locked.
"""

import faulthandler
import gc
import json
import os
import select
import signal
import socket
import struct
import sys
from contextlib import suppress
from typing import Final

from llguidance import LLTokenizer

from penstock_runtime.engine.continuous.grammar import worker
from penstock_runtime.engine.crashes import report_crashes

FORK: Final = struct.Struct("<Q")
"""Service to server, with a socket: fork a worker of that number for it; without one: kill it."""
NEWS: Final = struct.Struct("<Qii")
"""Server to service: number, process id, and how it ended (as `Popen.returncode`), or `STARTED`."""
STARTED: Final = 1 << 30
READY: Final = b"ready"


class ForkServer:
    """Forks workers, reaps them and tells how they ended."""

    def __init__(self, control: socket.socket, tokenizer: LLTokenizer, ends: list[int]) -> None:
        self._control = control
        self._tokenizer = tokenizer
        self._ends = ends
        self._numbers: dict[int, int] = {}
        """By process id."""

    def serve(self) -> None:
        """Serve until the service closes its side; then end all workers."""
        woken, wakes = os.pipe()
        os.set_blocking(wakes, False)
        signal.set_wakeup_fd(wakes, warn_on_full_buffer=False)
        signal.signal(signal.SIGCHLD, lambda *_: None)
        while True:
            readable, _, _ = select.select([self._control.fileno(), woken], (), ())
            if woken in readable:
                os.read(woken, 4096)
                self._reap()
            if self._control.fileno() in readable and not self._obey():
                break
        for process in self._numbers:
            os.kill(process, signal.SIGKILL)

    def _obey(self) -> bool:
        """Take one order; return False when there will be no more."""
        try:
            message, descriptors, _, _ = socket.recv_fds(self._control, FORK.size, 1)
        except OSError:  # the service is gone
            return False
        if not message:
            return False
        (number,) = FORK.unpack(message)
        if descriptors:
            with socket.socket(fileno=descriptors[0]) as service:
                self._fork(number, service)
        else:
            for process in [one for one, held in self._numbers.items() if held == number]:
                os.kill(process, signal.SIGKILL)
        return True

    def _fork(self, number: int, service: socket.socket) -> None:
        process = os.fork()
        if not process:
            signal.set_wakeup_fd(-1)
            signal.signal(signal.SIGCHLD, signal.SIG_DFL)
            faulthandler.disable()
            self._control.close()
            worker.run(service, self._tokenizer, self._ends)
        self._numbers[process] = number
        self._tell(number, process, STARTED)

    def _reap(self) -> None:
        while self._numbers:
            process, status = os.waitpid(-1, os.WNOHANG)
            if not process:
                return
            number = self._numbers.pop(process)
            self._tell(number, process, os.waitstatus_to_exitcode(status))

    def _tell(self, number: int, process: int, code: int) -> None:
        with suppress(OSError):  # the service is gone: the next order says so
            self._control.send(NEWS.pack(number, process, code))


def main(descriptor: int) -> None:
    """Build the trie, say so, and serve."""
    signal.signal(signal.SIGINT, signal.SIG_IGN)  # Ctrl-C reaches the whole group: the pod decides
    report_crashes()
    given = json.load(sys.stdin)
    sys.stdin.close()
    with socket.socket(fileno=descriptor) as control:
        try:
            tokenizer = LLTokenizer(
                given["tokenizer"], n_vocab=given["vocabulary"], eos_token=given["ends"] or None
            )
        except Exception as error:  # noqa: BLE001  whatever the library raises is told
            control.send(worker.first_line(str(error)).encode() or b"no reason given")
            return
        control.send(READY)
        gc.collect()
        gc.freeze()  # a collection in a worker would copy every page that is shared
        gc.disable()
        ForkServer(control, tokenizer, given["ends"]).serve()


if __name__ == "__main__":
    main(int(sys.argv[1]))
