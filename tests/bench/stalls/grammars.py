"""The longest gap of a stream while other clients of the same pod send hostile grammars."""

import multiprocessing
from collections.abc import Iterator
from concurrent.futures import ThreadPoolExecutor
from contextlib import contextmanager
from multiprocessing.connection import Connection
from pathlib import Path
from typing import Final

import httpx2
from rich.table import Table

from tests.stalls.walk import GENERATION, running
from tests.unit.runtime.engine.continuous.grammar.hostile import (
    OPTIONS,
    RULES,
    SCHEMA,
    body_with,
    repeated,
)
from tests.unit.runtime.engine.continuous.grammar.innocent import Body, Innocent

NAME: Final = "grammars"
CLIENTS: Final = 4


def _bodies(turn: int) -> dict[str, list[Body]]:
    """Return hostile bodies by kind; those of a turn equal no other's, for equal grammars are compiled once."""
    counts = range(9000 - 10 * turn, 9000 - 10 * turn + CLIENTS)
    letters = [body_with(guided_regex=repeated("d", count)) for count in counts]
    digits = [body_with(guided_regex=repeated(r"\d", count)) for count in counts]
    kinds = {
        "1,101 references": [SCHEMA] * CLIENTS,
        "3,000 rules": [RULES] * CLIENTS,
        "30,000 options": [OPTIONS] * CLIENTS,
        "a slow first mask": letters,
        "150 MB a grammar": digits,
    }
    return kinds | {"all at once": [body for bodies in kinds.values() for body in bodies]}


def table(folder: Path, turns: int = 3) -> Table:
    """Measure each kind of grammar from one client and from several at once."""
    lines = Table(title=f"longest gap of a stream next to grammars, ms, median of {turns}")
    for name in ("grammars", "1 client", f"{CLIENTS} clients"):
        lines.add_column(name)
    gaps: dict[str, list[list[float]]] = {}
    with running(GENERATION, folder) as runtime, streaming(runtime.client) as stream:
        for turn in range(turns):
            for kind, bodies in _bodies(turn).items():
                alone = _gap(stream, runtime.client, bodies[:1], 1) if len(bodies) <= CLIENTS else 0
                together = _gap(stream, runtime.client, bodies[1:], CLIENTS)
                gaps.setdefault(kind, []).append([alone, together])
        stream.send(None)
    for kind, measured in gaps.items():
        alone, together = (sorted(column)[turns // 2] for column in zip(*measured, strict=True))
        lines.add_row(kind, f"{1000 * alone:.0f}" if alone else "", f"{1000 * together:.0f}")
    return lines


def _gap(stream: Connection, url: str, bodies: list[Body], clients: int) -> float:
    stream.send("longest gap")
    stream.recv()
    with (
        httpx2.Client(base_url=url, timeout=120) as http,
        ThreadPoolExecutor(clients) as senders,
    ):
        answers = list(senders.map(lambda body: http.post("/v1/completions", json=body), bodies))
    assert {answer.status_code for answer in answers} <= {200, 400}, answers[0].text
    stream.send("longest gap")
    return float(stream.recv())


@contextmanager
def streaming(url: str) -> Iterator[Connection]:
    """Stream in a process of its own, which answers each message with the longest gap since the last one."""
    ours, theirs = multiprocessing.Pipe()
    process = multiprocessing.get_context("spawn").Process(target=_stream, args=(url, theirs))
    process.start()
    try:
        yield ours
    finally:
        ours.close()
        process.join(60)


def _stream(url: str, orders: Connection) -> None:
    innocent = Innocent(url)
    with innocent.streaming():
        while orders.recv() is not None:
            orders.send(innocent.longest_seconds)
            innocent.longest_seconds = 0.0
