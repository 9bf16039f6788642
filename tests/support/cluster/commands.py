"""Running other programs: quiet while they succeed, their last words when they fail."""

import os
import subprocess
import threading
import time
from collections.abc import Iterator, Mapping, Sequence
from contextlib import contextmanager
from pathlib import Path
from typing import IO

from tests.support.cluster.progress import say

Word = str | Path
REPORT_SECONDS = 15.0


class CommandFailedError(Exception):
    """A program ended with an error; the message holds the end of what it wrote."""


def output(argv: Sequence[Word], *, stdin: str | None = None, timeout_seconds: float = 60) -> str:
    """Run a short program and return what it wrote to stdout.

    Raises:
        CommandFailedError: it could not start, ended with an error, or took too long.
    """
    words = [str(word) for word in argv]
    try:
        done = subprocess.run(
            words, input=stdin, text=True, capture_output=True, timeout=timeout_seconds, check=False
        )
    except (OSError, subprocess.TimeoutExpired) as error:
        raise CommandFailedError(f"{words[0]}: {error}") from error
    if done.returncode:
        raise CommandFailedError(
            f"{' '.join(words)[:200]}: exit {done.returncode}: {(done.stderr or done.stdout).strip()[-2000:]}"
        )
    return done.stdout


def quietly(argv: Sequence[Word]) -> None:
    """Run a clean-up command whose failure means that there was nothing to clean."""
    subprocess.run([str(word) for word in argv], capture_output=True, check=False)


def build(
    title: str,
    argv: Sequence[Word],
    log: Path,
    *,
    env: Mapping[str, str] | None = None,
    cwd: Path | None = None,
) -> None:
    """Run a long program with its output in `log`, and a progress line every 15 s.

    Raises:
        CommandFailedError: with the last lines of the log.
    """
    started = time.monotonic()
    say(f"{title}: started")
    log.parent.mkdir(parents=True, exist_ok=True)
    with log.open("a") as sink:
        program = subprocess.Popen(
            [str(word) for word in argv],
            stdout=sink,
            stderr=subprocess.STDOUT,
            stdin=subprocess.DEVNULL,
            env={**os.environ, **(env or {})},
            cwd=cwd,
        )
        ended = threading.Event()
        threading.Thread(target=_report, args=(title, started, ended), daemon=True).start()
        try:
            code = program.wait()
        finally:
            ended.set()
            if program.poll() is None:
                program.kill()
    if code:
        raise CommandFailedError(f"{title}: exit {code}; {log} ends with:\n{tail(log)}")
    say(f"{title}: done in {time.monotonic() - started:.1f} s")


@contextmanager
def streamed(title: str, argv: Sequence[Word], log: Path) -> Iterator[IO[bytes]]:
    """Run a long program whose stdout the caller reads; its stderr goes to `log`.

    Raises:
        CommandFailedError: with the last lines of the log.
    """
    started = time.monotonic()
    say(f"{title}: started")
    log.parent.mkdir(parents=True, exist_ok=True)
    with (
        log.open("a") as sink,
        subprocess.Popen(
            [str(word) for word in argv],
            stdin=subprocess.DEVNULL,
            stdout=subprocess.PIPE,
            stderr=sink,
        ) as program,
    ):
        assert program.stdout
        try:
            yield program.stdout
            while program.stdout.read(2**20):
                pass  # what follows the part that was read
        except BaseException:
            program.kill()
            raise
    if program.returncode:
        raise CommandFailedError(
            f"{title}: exit {program.returncode}; {log} ends with:\n{tail(log)}"
        )
    say(f"{title}: done in {time.monotonic() - started:.1f} s")


def tail(log: Path, lines: int = 15) -> str:
    """Return the last lines of a log, or a word that there is none."""
    return (
        "\n".join(log.read_text(errors="replace").splitlines()[-lines:])
        if log.exists()
        else "(no log)"
    )


def _report(title: str, started: float, ended: threading.Event) -> None:
    while not ended.wait(REPORT_SECONDS):
        say(f"{title}: {time.monotonic() - started:.0f} s so far")
