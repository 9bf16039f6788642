"""The grammar fork server: `python -m penstock_runtime.engine.continuous.grammar.process SOCKET`, one per pod.

It reads the tokenizer from standard input, builds the trie once, and forks a worker for each socket that it receives.
The workers share the trie. It has a single thread, so a fork never copies a held lock.
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
"""Service to server: a worker number. With a socket attached, fork that worker; without, kill it."""
WORKER_STATE: Final = struct.Struct("<Qii")
"""Server to service: number, process id, and exit code (as `Popen.returncode`) or `STARTED`."""
STARTED: Final = 1 << 30
NOT_FORKED: Final = 1 << 28
"""Exit code of a worker that could not be forked, as at the limit of processes."""
READY: Final = b"ready"


class ForkServer:
    """Forks workers, reaps them and reports their exit codes."""

    def __init__(self, control: socket.socket, tokenizer: LLTokenizer, stop_ids: list[int]) -> None:
        self._control = control
        self._tokenizer = tokenizer
        self._stop_ids = stop_ids
        self._numbers: dict[int, int] = {}
        """Worker number by process id."""

    def serve(self) -> None:
        """Serve until the service closes its side, then kill all workers."""
        wakeup_reader, wakeup_writer = os.pipe()
        os.set_blocking(wakeup_writer, False)
        signal.set_wakeup_fd(wakeup_writer, warn_on_full_buffer=False)
        signal.signal(signal.SIGCHLD, lambda *_: None)
        while True:
            readable, _, _ = select.select([self._control.fileno(), wakeup_reader], (), ())
            if wakeup_reader in readable:
                os.read(wakeup_reader, 4096)
                self._reap()
            if self._control.fileno() in readable and not self._execute_command():
                break
        for process in self._numbers:
            os.kill(process, signal.SIGKILL)

    def _execute_command(self) -> bool:
        """Execute one command; return False when the service has closed its side."""
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
            for process, worker_number in self._numbers.items():
                if worker_number == number:
                    os.kill(process, signal.SIGKILL)
        return True

    def _fork(self, number: int, service: socket.socket) -> None:
        try:
            process = os.fork()
        except OSError:
            self._report(number, 0, NOT_FORKED)
            return
        if not process:
            signal.set_wakeup_fd(-1)
            signal.signal(signal.SIGCHLD, signal.SIG_DFL)
            faulthandler.disable()
            self._control.close()
            worker.run(service, self._tokenizer, self._stop_ids)
        self._numbers[process] = number
        self._report(number, process, STARTED)

    def _reap(self) -> None:
        while self._numbers:
            process, status = os.waitpid(-1, os.WNOHANG)
            if not process:
                return
            number = self._numbers.pop(process)
            self._report(number, process, os.waitstatus_to_exitcode(status))

    def _report(self, number: int, process: int, code: int) -> None:
        with suppress(OSError):  # the service is gone: the next read returns nothing
            self._control.send(WORKER_STATE.pack(number, process, code))


def main(descriptor: int) -> None:
    """Build the trie, report READY or the error, and serve."""
    signal.signal(
        signal.SIGINT, signal.SIG_IGN
    )  # Ctrl-C reaches the whole process group; the parent stops this process
    report_crashes()
    vocabulary = json.load(sys.stdin)
    sys.stdin.close()
    with socket.socket(fileno=descriptor) as control:
        try:
            tokenizer = LLTokenizer(
                vocabulary["tokenizer"],
                n_vocab=vocabulary["vocabulary"],
                eos_token=vocabulary["stop_ids"] or None,
            )
        except Exception as error:  # noqa: BLE001  reported, whatever the library raises
            control.send(worker.first_line(str(error)).encode() or b"no reason given")
            return
        try:
            control.send(READY)
        except BrokenPipeError:
            return  # the pod has ended meanwhile
        gc.collect()
        gc.freeze()  # a collection in a worker would touch, and so copy, every shared page
        gc.disable()
        ForkServer(control, tokenizer, vocabulary["stop_ids"]).serve()


if __name__ == "__main__":
    main(int(sys.argv[1]))
