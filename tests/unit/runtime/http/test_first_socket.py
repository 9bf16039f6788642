"""The cluster port is open before the runtime is imported, and the server takes that socket."""

import socket
from collections.abc import Iterator

import pytest

from penstock_api import names
from penstock_runtime.http import first_socket


@pytest.fixture(autouse=True)
def _none_opened() -> Iterator[None]:
    yield
    while first_socket._opened:
        first_socket._opened.pop().close()


def _free_port() -> int:
    with socket.create_server(("", 0)) as free:
        return int(free.getsockname()[1])


def test_a_client_connects_before_the_server_takes_the_socket() -> None:
    port = _free_port()
    first_socket.open_first({names.ENV_CLUSTER_PORT: str(port)})
    with socket.create_connection(("127.0.0.1", port)) as client:
        with first_socket.server_socket(names.ANY_HOST, port) as server:
            accepted, address = server.accept()
            accepted.close()
        assert address == client.getsockname()
    assert not first_socket._opened


def test_another_address_has_a_socket_of_its_own() -> None:
    port = _free_port()
    first_socket.open_first({names.ENV_CLUSTER_PORT: str(port)})
    with first_socket.server_socket("127.0.0.1", 0) as server:
        assert server.getsockname()[1] not in (0, port)
    with pytest.raises(OSError, match="in use"):
        first_socket.server_socket("127.0.0.1", port)


@pytest.mark.parametrize("port", ["no", "99999", "-1"])
def test_an_invalid_port_is_left_to_the_configuration(port: str) -> None:
    first_socket.open_first({names.ENV_CLUSTER_PORT: port})
    assert not first_socket._opened


def test_a_host_of_its_own_is_not_opened_first() -> None:
    first_socket.open_first({names.ENV_HOST: "127.0.0.1", names.ENV_CLUSTER_PORT: "0"})
    assert not first_socket._opened
