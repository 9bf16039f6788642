"""No request delays `/healthz`: every route of every kind of pod receives the largest body that it accepts."""

import signal
import time
from collections.abc import Iterator

import pytest

from tests.stalls.walk import KINDS, SIZE, Kind, Wait, Walked, walking

MAX_SECONDS = 0.1
ATTEMPTS = 3
"""A stall of the pod recurs on every attempt; one of the machine does not."""
SIZES = [
    pytest.param(SIZE // 8, id="8 MiB"),
    pytest.param(SIZE, id="largest", marks=pytest.mark.long),
]
"""A wait proportional to the body's size also shows with an eighth of the largest."""


@pytest.fixture(scope="module", params=KINDS, ids=[kind.name for kind in KINDS])
def walked(
    request: pytest.FixtureRequest, tmp_path_factory: pytest.TempPathFactory
) -> Iterator[Walked]:
    kind: Kind = request.param
    with walking(kind, tmp_path_factory.mktemp("pod")) as walk:
        yield walk


@pytest.mark.parametrize("kind", KINDS, ids=[kind.name for kind in KINDS])
def test_every_route_has_its_bodies(kind: Kind) -> None:
    for route in kind.routes():
        assert kind.shapes(route, 2**16), route


def test_a_stopped_pod_is_a_stall_of_its_own(walked: Walked) -> None:
    walked._probe.longest()
    walked._runtime.process.send_signal(signal.SIGSTOP)
    time.sleep(4 * MAX_SECONDS)
    walked._runtime.process.send_signal(signal.SIGCONT)
    assert walked._probe.longest().unqueued > MAX_SECONDS


@pytest.mark.parametrize("size", SIZES)
def test_no_request_delays_the_probe(walked: Walked, size: int) -> None:
    slow: list[Wait] = []
    for route, cluster in walked.kind.routes().items():
        if "/versions/" in route:  # the handler of the route without
            continue
        for shape in walked.kind.shapes(route, size):
            for _ in range(ATTEMPTS):
                wait = walked.send(route, shape, cluster=cluster)
                assert wait.status not in (0, 500), wait
                assert shape.hostile or not wait.over_limit, wait
                if wait.longest.unqueued <= MAX_SECONDS:  # the machine's part is not the pod's
                    break
            else:
                slow.append(wait)
    assert not slow
