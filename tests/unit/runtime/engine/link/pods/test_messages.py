"""Which workers a leader refuses, and which lines are no messages."""

import pytest

from penstock_runtime.engine.link.pods.interfaces import interface_of, own_addresses
from penstock_runtime.engine.link.pods.messages import (
    Beat,
    Close,
    Closing,
    Hello,
    Lost,
    Meet,
    PodMessage,
    RanksLoaded,
    Refused,
    Stopping,
    decode,
    encode,
    refusal,
)

SETTINGS = {"model": "tiny", "torch": "2.9.0"}
HELLO = Hello(1, 2, "chat-0-1", SETTINGS)


@pytest.mark.parametrize(
    "message",
    [HELLO, Refused("no"), Meet(29501), RanksLoaded(), Beat(), Lost("rank 1"), Stopping(), Close(), Closing()],
    ids=lambda message: type(message).__name__,
)  # fmt: skip
def test_each_message_is_one_line_that_decodes_to_it(message: PodMessage) -> None:
    line = encode(message)
    assert line.endswith(b"\n")
    assert line.count(b"\n") == 1
    assert decode(line) == message


@pytest.mark.parametrize(
    "line",
    [b"\n", b"{}\n", b"GET / HTTP/1.1\r\n", b'{"type":"Meet"}\n', b'{"type":"Meet","port":"x"}\n', b"\xff\n"],
)  # fmt: skip
def test_other_lines_are_errors(line: bytes) -> None:
    with pytest.raises(ValueError, match=r"."):
        decode(line)


def test_a_worker_with_the_leaders_settings_belongs_to_it() -> None:
    assert refusal(HELLO, 2, SETTINGS) is None


@pytest.mark.parametrize(
    ("hello", "words"),
    [
        (Hello(1, 3, "w", SETTINGS), ["3 pods", "the leader 2"]),
        (Hello(0, 2, "w", SETTINGS), ["pod 0 (w)", "LWS_WORKER_INDEX"]),
        (Hello(2, 2, "w", SETTINGS), ["pod 2 (w)", "LWS_WORKER_INDEX"]),
        (Hello(1, 2, "w", {**SETTINGS, "torch": "2.8.0"}), ["torch", "2.9.0 on the leader", "2.8.0 on pod 1"]),
        (Hello(1, 2, "w", {"model": "tiny"}), ["torch", "2.9.0", "unset on pod 1"]),
        (Hello(1, 2, "w", {**SETTINGS, "dtype": "float16"}), ["dtype", "unset on the leader", "float16"]),
    ],
)  # fmt: skip
def test_a_refusal_names_both_values(hello: Hello, words: list[str]) -> None:
    reason = refusal(hello, 2, SETTINGS) or ""
    assert [each for each in words if each not in reason] == []


def test_the_interface_is_that_of_the_address() -> None:
    addresses = own_addresses()
    assert interface_of("127.0.0.1", addresses) == "lo"
    assert interface_of("192.0.2.7", addresses) is None
