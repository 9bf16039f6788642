"""A loop that closes leaves no transport to the garbage collector."""

import asyncio
import gc
import socket
import warnings

import pytest


def leaked() -> list[str]:
    """Return the resources that the garbage collector finds open."""
    with warnings.catch_warnings(record=True) as caught:
        warnings.simplefilter("always")
        gc.collect()
    return [str(each.message) for each in caught if each.category is ResourceWarning]


def test_a_connection_whose_client_does_not_read_ends_with_its_loop() -> None:
    here, there = socket.socketpair()
    loop = asyncio.new_event_loop()
    transport, _ = loop.run_until_complete(loop.create_connection(asyncio.Protocol, sock=here))
    transport.write(bytes(2**22))
    transport.close()
    loop.close()
    del transport
    with there:
        assert not leaked()


def test_a_connection_accepted_in_the_last_round_ends_with_its_loop() -> None:
    loop = asyncio.new_event_loop()
    with socket.create_server(("127.0.0.1", 0)) as listener:
        loop.run_until_complete(loop.create_server(asyncio.Protocol, sock=listener))
        with socket.create_connection(listener.getsockname()):
            loop.close()
            assert not leaked()


@pytest.mark.parametrize("rounds", range(8))
def test_a_client_that_connects_while_its_loop_closes_is_not_accepted(rounds: int) -> None:
    loop = asyncio.new_event_loop()
    with socket.create_server(("127.0.0.1", 0)) as listener, socket.socket() as client:
        loop.run_until_complete(loop.create_server(asyncio.Protocol, sock=listener))

        def connect_after(rounds: int) -> None:
            if rounds:
                loop.call_soon(connect_after, rounds - 1)
            else:
                client.connect(listener.getsockname())

        connect_after(rounds)
        loop.close()
        assert not leaked()


@pytest.mark.parametrize("rounds", range(12))
def test_a_task_that_connects_while_its_loop_closes_leaves_no_connection(rounds: int) -> None:
    loop = asyncio.new_event_loop()
    with socket.create_server(("127.0.0.1", 0)) as listener:

        async def connect_after(rounds: int) -> None:
            for _ in range(rounds):
                await asyncio.sleep(0)
            _, writer = await asyncio.open_connection(*listener.getsockname())
            await writer.wait_closed()

        task = loop.create_task(connect_after(rounds))
        loop.run_until_complete(asyncio.sleep(0))
        loop.close()
        assert task.done()
        del task
        assert not leaked()


def test_a_connection_that_is_not_read_ends_with_its_loop() -> None:
    here, there = socket.socketpair()
    loop = asyncio.new_event_loop()
    transport, _ = loop.run_until_complete(loop.create_connection(asyncio.Protocol, sock=here))
    loop.run_until_complete(asyncio.sleep(0))
    transport.pause_reading()  # the selector knows it no longer
    del transport
    with there:
        assert not leaked()
        loop.close()
        assert not leaked()


@pytest.mark.parametrize("rounds", range(12))
def test_a_listener_of_its_own_accepts_no_client_while_its_loop_closes(rounds: int) -> None:
    loop = asyncio.new_event_loop()
    with socket.create_server(("127.0.0.1", 0)) as listener, socket.socket() as client:
        accepting = []

        def accept() -> None:
            accepted, _ = listener.accept()
            connect = loop.connect_accepted_socket(asyncio.Protocol, accepted)
            accepting.append(loop.create_task(connect))

        def connect_after(rounds: int) -> None:
            if rounds:
                loop.call_soon(connect_after, rounds - 1)
            else:
                client.connect(listener.getsockname())

        loop.add_reader(listener, accept)
        connect_after(rounds)
        loop.close()
        accepting.clear()
        assert not leaked()


@pytest.mark.parametrize("rounds", range(12))
def test_a_task_that_connects_when_it_is_cancelled_leaves_no_connection(rounds: int) -> None:
    loop = asyncio.new_event_loop()
    with socket.create_server(("127.0.0.1", 0)) as listener:

        async def say_goodbye() -> None:
            try:
                await asyncio.Event().wait()
            finally:
                for _ in range(rounds):
                    await asyncio.sleep(0)
                _, writer = await asyncio.open_connection(*listener.getsockname())
                await writer.wait_closed()

        task = loop.create_task(say_goodbye())
        loop.run_until_complete(asyncio.sleep(0))
        loop.close()
        assert task.done()
        del task
        assert not leaked()


@pytest.mark.parametrize("rounds", range(6))
def test_a_client_that_is_accepted_as_its_server_closes_leaves_no_connection(rounds: int) -> None:
    loop = asyncio.new_event_loop()
    loop.set_exception_handler(lambda *_: None)
    with socket.create_server(("127.0.0.1", 0)) as listener, socket.socket() as client:
        address = listener.getsockname()

        async def close_after(rounds: int) -> None:
            server = await loop.create_server(asyncio.Protocol, sock=listener)
            await asyncio.sleep(0)
            client.connect(address)
            for _ in range(rounds):
                await asyncio.sleep(0)
            server.close()
            for _ in range(3):
                await asyncio.sleep(0)

        loop.run_until_complete(close_after(rounds))
        loop.close()
        assert not leaked()
