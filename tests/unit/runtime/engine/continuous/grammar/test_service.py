"""The grammar service shares and bounds its workers and survives its fork server; the processes are real."""

import asyncio
import errno
import os
import select
import signal
import socket
import threading
import weakref
from collections.abc import AsyncIterator, Callable

import pytest

from penstock_runtime.engine.continuous.grammar import process, server, worker
from penstock_runtime.engine.continuous.grammar import service as module
from penstock_runtime.engine.continuous.grammar.base import Allowed, Broken, Complete, Grammar
from penstock_runtime.engine.continuous.grammar.client import GrammarClient
from penstock_runtime.engine.continuous.grammar.server import GrammarVocabulary
from penstock_runtime.engine.continuous.grammar.service import GrammarService
from penstock_runtime.engine.continuous.grammar.spec import (
    GrammarKind,
    GrammarRejected,
    GrammarSpec,
)
from penstock_runtime.errors import MemoryFull, NotServing
from tests.support.demo_model.tokenizer import make_tokenizer
from tests.unit.runtime.engine.continuous.grammar.hostile import repeated

VOCABULARY = 1024
TOKENS = GrammarVocabulary(make_tokenizer().to_str(), VOCABULARY, (0,))
SECONDS = 60.0
NO_PROCESS = OSError(errno.EAGAIN, "no more processes")
NO_THREAD = RuntimeError("can't start new thread")


def regex(text: str) -> GrammarSpec:
    return GrammarSpec(GrammarKind.REGEX, text)


@pytest.fixture
async def service() -> AsyncIterator[GrammarService]:
    grammar_service = GrammarService()
    grammar_service.start(TOKENS)
    await grammar_service._first_start_done.wait()
    yield grammar_service
    await grammar_service.close()


async def until(holds: Callable[[], bool]) -> None:
    async with asyncio.timeout(SECONDS):
        while not holds():  # noqa: ASYNC110 - what is waited for has many owners
            await asyncio.sleep(0.01)


def listens(address: str) -> bool:
    with socket.socket(socket.AF_UNIX, socket.SOCK_SEQPACKET) as connection:
        return connection.connect_ex(address) == 0


def next_verdict(client: GrammarClient, grammar: Grammar) -> object:
    client.wait([grammar], SECONDS)
    return grammar.verdict


async def test_states_of_one_grammar_move_each_by_itself(service: GrammarService) -> None:
    lease = await service.lease(regex("a[bc]"))
    client, ids = GrammarClient(VOCABULARY), make_tokenizer().encode("abc").ids
    first_state, other = client.start(lease.address), client.start(lease.address)
    for grammar in (first_state, other):
        grammar.begin()
    assert isinstance(next_verdict(client, first_state), Allowed)
    first_state.accept(ids[0])
    assert isinstance(next_verdict(client, first_state), Allowed)
    first_state.accept(ids[1])
    assert isinstance(next_verdict(client, first_state), Complete)
    first = next_verdict(client, other)
    assert isinstance(first, Allowed)
    assert first.mask[ids[0] // 32] >> ids[0] % 32 & 1
    for grammar in (first_state, other):
        grammar.close()
    assert not client._channels
    lease.release()


async def test_a_resumed_state_has_the_verdict_after_its_tokens(service: GrammarService) -> None:
    lease = await service.lease(regex("[ab]{300}c"))
    client, ids = GrammarClient(VOCABULARY), make_tokenizer().encode("abc").ids
    output = [ids[n % 2] for n in range(300)]
    for length, following in ((1, ids[0]), (299, ids[1]), (300, ids[2])):
        grammar = client.start(lease.address)
        grammar.resume(output[:length])
        grammar.begin()
        verdict = next_verdict(client, grammar)
        assert isinstance(verdict, Allowed)
        assert verdict.mask[following // 32] >> following % 32 & 1
        assert bool(verdict.mask[ids[2] // 32] >> ids[2] % 32 & 1) == (length == 300)
        grammar.close()
    assert not client._channels
    lease.release()


async def test_a_token_that_the_mask_forbids_breaks_its_state_alone(
    service: GrammarService,
) -> None:
    lease = await service.lease(regex("ab"))
    client, wrong = GrammarClient(VOCABULARY), make_tokenizer().encode("z").ids[0]
    first_state, other = client.start(lease.address), client.start(lease.address)
    for grammar in (first_state, other):
        grammar.begin()
        next_verdict(client, grammar)
    first_state.accept(wrong)
    assert isinstance(next_verdict(client, first_state), Broken)
    assert isinstance(next_verdict(client, other), Allowed)
    first_state.close()
    other.close()


async def test_a_process_that_ends_breaks_all_its_states_and_is_compiled_again(
    service: GrammarService,
) -> None:
    lease = await service.lease(regex("ab"))
    client = GrammarClient(VOCABULARY)
    grammar = client.start(lease.address)
    grammar.begin()
    next_verdict(client, grammar)
    (worker,) = service._numbers.values()
    assert worker.process is not None
    os.kill(worker.process, signal.SIGSEGV)
    await until(lambda: not service._numbers)
    grammar.accept(make_tokenizer().encode("a").ids[0])
    broken = next_verdict(client, grammar)
    assert isinstance(broken, Broken)
    assert "192 MiB" in broken.reason
    grammar.close()
    assert (await service.lease(regex("ab"))).address != lease.address


async def test_equal_grammars_share_a_process_and_different_ones_do_not(
    service: GrammarService,
) -> None:
    leases = await asyncio.gather(*(service.lease(regex(text)) for text in ("a", "a", "b")))
    assert leases[0].address == leases[1].address != leases[2].address


async def test_idle_grammars_give_way_the_least_recently_used_first(
    service: GrammarService, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(module, "MAX_WORKERS", 2)
    for text in ("a", "b", "a"):
        (await service.lease(regex(text))).release()
    (await service.lease(regex("c"))).release()
    assert {spec.text for spec in service._workers} == {"a", "c"}


async def test_grammars_in_use_do_not_give_way(
    service: GrammarService, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(module, "MAX_WORKERS", 1)
    lease = await service.lease(regex("a"))
    with pytest.raises(MemoryFull):
        await service.lease(regex("b"))
    lease.release()
    await service.lease(regex("b"))


@pytest.mark.usefixtures("uncollected")
async def test_nothing_is_kept_of_a_request_whose_grammar_is_rejected(
    service: GrammarService,
) -> None:
    kept = list[weakref.ref[asyncio.Event]]()

    async def compile_it() -> None:
        body = asyncio.Event()  # in place of what a request keeps
        kept.append(weakref.ref(body))
        await service.lease(regex("("))

    with pytest.raises(GrammarRejected):
        await compile_it()
    await until(lambda: kept[0]() is None)


async def test_memory_that_grammars_take_is_measured_and_bounded(
    service: GrammarService, monkeypatch: pytest.MonkeyPatch
) -> None:
    (await service.lease(regex("a+"))).release()
    own = service._bytes()
    assert 0 < own < 32 * 2**20, "what a process takes whose trie is shared"
    monkeypatch.setattr(module, "MAX_BYTES", own + 1)
    (await service.lease(regex("b+"))).release()
    assert {spec.text for spec in service._workers} == {"b+"}
    monkeypatch.setattr(module, "MAX_BYTES", 1)
    await until(lambda: not service._workers)


async def test_a_compilation_without_waiting_requests_is_ended(
    service: GrammarService,
) -> None:
    asking = asyncio.create_task(service.lease(regex(repeated("d"))))
    await until(lambda: any(worker.process for worker in service._numbers.values()))
    asking.cancel()
    await asyncio.wait([asking])
    assert not service._numbers
    await service.lease(regex("a"))


async def test_a_flood_of_grammars_waits_within_bounds(
    service: GrammarService, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(module, "MAX_WAITING", 2)
    texts = [repeated("d", 9000 + n) for n in range(6)]
    asking = [asyncio.create_task(service.lease(regex(text))) for text in texts]
    compiled, refused = asking[:4], asking[4:]
    await asyncio.wait(refused)
    assert all(isinstance(task.exception(), MemoryFull) for task in refused)
    assert not any(task.done() for task in compiled)
    for task in compiled:
        task.cancel()
    await asyncio.wait(compiled)


async def test_a_fork_server_that_is_killed_is_started_again(service: GrammarService) -> None:
    assert service._server is not None
    before = service._server._process.pid
    await service.lease(regex("a"))
    os.kill(before, signal.SIGKILL)
    await until(lambda: service._server is not None and service._server._process.pid != before)
    await service.lease(regex("a"))


async def test_a_fork_server_is_started_again_though_its_workers_could_not_be_measured(
    service: GrammarService, monkeypatch: pytest.MonkeyPatch
) -> None:
    calls = list[int]()

    def measured(process: int) -> int:
        calls.append(process)
        raise NO_THREAD

    ended = service._server
    assert ended is not None
    await service.lease(regex("a"))
    with monkeypatch.context() as limited:
        limited.setattr(module, "private_bytes", measured)
        with pytest.raises(NotServing, match="new thread"):
            await service.lease(regex("b"))
        calls.clear()
        await until(lambda: bool(calls))
    os.kill(ended._process.pid, signal.SIGKILL)
    await until(lambda: service._server not in {None, ended})
    await service.lease(regex("b"))


async def test_grammars_in_use_outlive_their_fork_server_until_their_leases_end(
    service: GrammarService,
) -> None:
    ended = service._server
    assert ended is not None
    lease = await service.lease(regex("ab"))
    (await service.lease(regex("idle"))).release()
    client, ids = GrammarClient(VOCABULARY), make_tokenizer().encode("ab").ids
    grammar = client.start(lease.address)
    grammar.begin()
    assert isinstance(next_verdict(client, grammar), Allowed)
    os.kill(ended._process.pid, signal.SIGKILL)
    await until(lambda: service._server not in {None, ended})
    assert [worker.spec.text for worker in service._numbers.values()] == ["ab"]
    grammar.accept(ids[0])
    assert isinstance(next_verdict(client, grammar), Allowed)
    new = await service.lease(regex("ab"))
    assert new.address != lease.address
    grammar.accept(ids[1])
    assert isinstance(next_verdict(client, grammar), Complete)
    grammar.close()
    lease.release()
    new.release()
    await until(lambda: not listens(lease.address))
    assert listens(new.address)


async def test_a_fork_that_fails_may_be_tried_again_and_ends_no_other_grammar(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    def fork() -> int:
        raise BlockingIOError(errno.EAGAIN, "no more processes")

    monkeypatch.setattr(os, "fork", fork)
    ours, theirs = socket.socketpair(socket.AF_UNIX, socket.SOCK_SEQPACKET)
    with ours, theirs, socket.socket() as unused:
        process.ForkServer(theirs, None, [])._fork(7, unused)  # type: ignore[arg-type]
        number, _, code = process.WORKER_STATE.unpack(ours.recv(process.WORKER_STATE.size))
    assert number == 7
    with pytest.raises(NotServing, match="no further process"):
        server._raise_exit(code, compiled=False)


def test_a_worker_that_cannot_start_its_thread_blames_no_grammar(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    def start(_: threading.Thread) -> None:
        raise NO_THREAD

    def exited(code: int) -> None:
        server._raise_exit(code, compiled=False)

    monkeypatch.setattr(threading.Thread, "start", start)
    monkeypatch.setattr(threading, "stack_size", lambda _: None)
    monkeypatch.setattr(os, "_exit", exited)
    with pytest.raises(NotServing, match="no further process"):
        worker._at_falling_priority(lambda: "")


async def test_a_grammar_that_is_compiled_as_the_fork_server_ends_may_be_tried_again(
    service: GrammarService,
) -> None:
    assert service._server is not None
    asking = asyncio.create_task(service.lease(regex(repeated("d"))))
    await until(lambda: any(worker.process for worker in service._numbers.values()))
    os.kill(service._server._process.pid, signal.SIGKILL)
    with pytest.raises((NotServing, GrammarRejected)):
        await asking


async def test_a_rejection_is_read_though_the_exit_of_its_worker_is_known_first(
    service: GrammarService,
) -> None:
    handle = service._server
    assert handle is not None
    compiling = asyncio.create_task(service.lease(regex("[")))
    async with asyncio.timeout(SECONDS):
        while not handle._lines:  # noqa: ASYNC110 - each round: a later one may have read it
            await asyncio.sleep(0)
    while handle._codes:  # the loop reads nothing meanwhile
        select.select([handle._control], [], [], SECONDS)
        handle._receive()
    with pytest.raises(GrammarRejected, match="regex parse error"):
        await compiling
    assert not handle._lines
