"""How the grammar service starts its fork server: slowly, with failures, and while it is closed; the processes are real."""

import asyncio
import signal
import socket
import subprocess
import threading
from collections.abc import Callable

import pytest

from penstock_runtime.engine.continuous.grammar import server
from penstock_runtime.engine.continuous.grammar.server import GrammarVocabulary
from penstock_runtime.engine.continuous.grammar.service import GrammarService
from penstock_runtime.engine.continuous.grammar.spec import GrammarRejected
from penstock_runtime.errors import NotServing
from tests.unit.runtime.engine.continuous.grammar.test_service import (
    NO_PROCESS,
    NO_THREAD,
    SECONDS,
    TOKENS,
    VOCABULARY,
    regex,
    until,
)

Spawn = Callable[[GrammarVocabulary], tuple[subprocess.Popen[bytes], socket.socket]]


async def test_a_start_that_is_cancelled_leaves_no_process(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    spawned: list[subprocess.Popen[bytes]] = []

    def spawn(tokens: GrammarVocabulary) -> tuple[subprocess.Popen[bytes], socket.socket]:
        process, control = original(tokens)
        spawned.append(process)
        return process, control

    original: Spawn = server._spawn
    monkeypatch.setattr(server, "_spawn", spawn)
    service = GrammarService()
    service.start(TOKENS)
    await asyncio.sleep(0)
    await service.close()
    assert [process.returncode for process in spawned] == [-signal.SIGKILL]


@pytest.mark.parametrize("error", [NO_PROCESS, NO_THREAD])
async def test_a_service_that_is_closed_during_a_start_that_fails_ends(
    monkeypatch: pytest.MonkeyPatch, error: Exception
) -> None:
    gate = threading.Event()

    def spawn(_: GrammarVocabulary) -> tuple[subprocess.Popen[bytes], socket.socket]:
        assert gate.wait(SECONDS)
        raise error

    monkeypatch.setattr(server, "_spawn", spawn)
    service = GrammarService()
    service.start(TOKENS)
    await asyncio.sleep(0.05)
    closing = asyncio.create_task(service.close())
    await asyncio.sleep(0.05)
    gate.set()
    await asyncio.wait_for(closing, SECONDS)


@pytest.mark.parametrize("error", [NO_PROCESS, NO_THREAD])
async def test_a_grammar_waits_for_a_start_that_takes_long_and_that_fails_at_first(
    monkeypatch: pytest.MonkeyPatch, error: Exception
) -> None:
    gate, original = threading.Event(), server._spawn

    def spawn(tokens: GrammarVocabulary) -> tuple[subprocess.Popen[bytes], socket.socket]:
        assert gate.wait(SECONDS)
        monkeypatch.setattr(server, "_spawn", original)
        raise error

    monkeypatch.setattr(server, "_spawn", spawn)
    service = GrammarService()
    service.start(TOKENS)
    leasing = asyncio.create_task(service.lease(regex("a")))
    await asyncio.sleep(0.05)
    assert not leasing.done()
    gate.set()
    with pytest.raises(NotServing, match="restarting"):
        await asyncio.wait_for(leasing, SECONDS)
    await until(lambda: service._server is not None)
    (await service.lease(regex("a"))).release()
    await service.close()


async def test_a_tokenizer_that_cannot_be_used_rejects_every_grammar() -> None:
    service = GrammarService()
    service.start(GrammarVocabulary("{}", VOCABULARY, (0,)))
    with pytest.raises(GrammarRejected, match="tokenizer"):
        await service.lease(regex("a"))
    await service.close()
