"""A loop that closes leaves no transport to the garbage collector."""

import asyncio
import gc
import socket
import warnings


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
