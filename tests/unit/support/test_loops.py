"""A loop that closes leaves no transport to the garbage collector."""

import asyncio
import gc
import socket
import warnings


def test_a_connection_whose_client_does_not_read_ends_with_its_loop() -> None:
    here, there = socket.socketpair()
    loop = asyncio.new_event_loop()
    transport, _ = loop.run_until_complete(loop.create_connection(asyncio.Protocol, sock=here))
    transport.write(bytes(2**22))
    transport.close()
    loop.close()
    del transport
    with warnings.catch_warnings(record=True) as caught:
        warnings.simplefilter("always")
        gc.collect()
    there.close()
    assert not [str(each.message) for each in caught if each.category is ResourceWarning]
