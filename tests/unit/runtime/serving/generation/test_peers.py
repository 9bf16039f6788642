"""What kind of failure each fault of the pool is."""

import socket
from collections.abc import Iterator

import pytest

from penstock_runtime.serving.generation.handover import peers
from penstock_runtime.serving.generation.handover.peers import NoPeer, Peers


@pytest.fixture
def silent_port() -> Iterator[int]:
    """Yield a port whose queue of connections is full, so that no further one is answered."""
    with socket.socket() as listening:
        listening.bind(("127.0.0.1", 0))
        listening.listen(0)
        waiting = [socket.socket() for _ in range(4)]
        for connection in waiting:
            connection.setblocking(False)
            connection.connect_ex(listening.getsockname())
        yield listening.getsockname()[1]
        for connection in waiting:
            connection.close()


@pytest.mark.parametrize("port", ["refusing", "silent"])
async def test_no_connection_means_that_no_pod_accepts_the_generation(
    silent_port: int, port: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(peers, "CONNECT_SECONDS", 0.2)
    pool = Peers(f"http://127.0.0.1:{silent_port if port == 'silent' else 1}")
    with pytest.raises(NoPeer):
        await anext(pool.events({}, {}))
    await pool.close()
