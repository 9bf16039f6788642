"""Attacks over the network by a tenant's own pod, or with a foreign token: all are rejected.

A tenant may run any code in a pod, so a pod here sends whatever it likes: real sockets, the operator's own calls on one
side, the runtime's real servers on the other. The attacks through the API server are in
tests/integration/pools/test_ways_out.py; docs/reference/security.md lists them all.
"""

import json
import time
from collections.abc import AsyncIterator, Callable
from pathlib import Path
from typing import Any

import pytest
from aiohttp import web

from penstock_api import names
from penstock_operator.act.pod_limits import LIMIT_BYTES, PodControl
from penstock_operator.decide.actions import LimitsPush
from penstock_operator.net.http import new_session
from penstock_operator.net.tokens import TOKEN_SECONDS, Signer
from penstock_operator.observe.signals.pod_scrape import read_pods
from penstock_operator.observed import Acknowledgement, SignalSource
from penstock_runtime.protocols.control.auth import LEEWAY_SECONDS
from tests.unit.operator.observe.signals.exporter import Figures, pod_object, serving
from tests.unit.runtime.conftest import LIMITS

OPERATOR = Signer.generate()
NEWER = LIMITS.model_copy(update={"generation": 2, "max_batch_size": 4})


@pytest.fixture
async def control() -> AsyncIterator[PodControl]:
    async with new_session() as session:
        yield PodControl(session, OPERATOR, time.time, lambda: True)


@pytest.fixture
def keys(tmp_path: Path) -> None:
    """The operator's public keys, as the pod under attack holds them."""
    keys = json.dumps({OPERATOR.kid: OPERATOR.public_key()})
    (tmp_path / names.CONTROL_KEYS_FILE).write_text(keys)


async def turn(pod: Any, token: str, url: str = "") -> int:
    """Try to turn a pod's valves with a token; return what it answers."""
    async with pod.session.patch(
        f"{url or pod.cluster_url}{names.PATH_LIMITS}",
        data=NEWER.model_dump_json(by_alias=True),
        headers={"Authorization": f"Bearer {token}"},
    ) as reply:
        return int(reply.status)


def obeys(pod: Any) -> int:
    generation: int = pod.pod.live.accepted.generation
    return generation


async def test_a_redirect_from_a_pod_takes_the_operator_nowhere(control: PodControl) -> None:
    reached: list[str] = []

    async def elsewhere(request: web.Request) -> web.Response:
        reached.append(request.headers.get("Authorization", ""))
        return web.Response()

    async with serving(web.route("*", "/{any:.*}", elsewhere)) as victim:

        async def away(_: web.Request) -> web.Response:
            raise web.HTTPTemporaryRedirect(f"http://{victim}:{names.CLUSTER_PORT}/secrets")

        async with serving(web.route("*", "/{any:.*}", away)) as ip, new_session() as session:
            pushed = await control.push([LimitsPush("uid-1", ip, NEWER)])
            read = await read_pods(session, [pod_object("uid-1", ip)], time.time())
    assert reached == []
    assert "redirects are not followed" in pushed["uid-1"].problem
    assert "redirects are not followed" in read.problem


async def test_an_oversized_state_is_cut_off_and_not_used(control: PodControl) -> None:
    sent = 0

    async def endless(request: web.Request) -> web.StreamResponse:
        nonlocal sent
        reply = web.StreamResponse()
        await reply.prepare(request)
        try:
            for _ in range(1000):
                await reply.write(b" " * LIMIT_BYTES)
                sent += LIMIT_BYTES
        except ConnectionError:
            pass
        return reply

    async with serving(web.patch(names.PATH_LIMITS, endless)) as ip:
        answer = (await control.push([LimitsPush("uid-1", ip, NEWER)]))["uid-1"]
    assert answer == Acknowledgement(
        None, None, f"{names.PATH_LIMITS} responded with more than {LIMIT_BYTES} bytes"
    )
    assert sent < 500 * LIMIT_BYTES


async def test_forged_metrics_do_not_count_for_other_pods_nor_with_absurd_numbers() -> None:
    neighbor = Figures(uid="uid-neighbor", waiting=1e6).text()
    absurd = Figures(uid="uid-1", waiting=float("nan"), rows=-5.0, duty={"EngineBusyShare": 1e300})
    async with new_session() as session:
        for text, check in ((neighbor, _nothing), (absurd.text(), _nothing_absurd)):

            async def answer(_: web.Request, text: str = text) -> web.Response:
                return web.Response(text=text)

            async with serving(web.get(names.PATH_METRICS, answer)) as ip:
                check(await read_pods(session, [pod_object("uid-1", ip)], time.time()))


def _nothing(answer: Any) -> None:
    assert (answer.source, answer.samples) == (SignalSource.NONE, ())
    assert "was served by another pod" in answer.problem


def _nothing_absurd(answer: Any) -> None:
    (sample,) = answer.samples
    assert (sample.waiting, sample.rows_received, sample.gpu_utilization) == (None, None, None)


async def test_a_foreign_token_changes_no_limit(pod: Any, keys: None) -> None:
    stranger = Signer.generate()
    assert await turn(pod, stranger.token("uid-0", 2, time.time())) == 401
    assert obeys(pod) == 1


async def test_a_replayed_token_changes_no_limit(pod: Any, keys: None) -> None:
    overheard = OPERATOR.token("uid-0", 2, time.time())
    assert await turn(pod, overheard) == 200
    assert await turn(pod, overheard) == 401


async def test_an_expired_token_changes_no_limit(pod: Any, keys: None) -> None:
    old = OPERATOR.token("uid-0", 2, time.time() - TOKEN_SECONDS - LEEWAY_SECONDS - 1)
    assert await turn(pod, old) == 401
    assert obeys(pod) == 1


async def test_a_token_for_another_pod_changes_no_limit(pod: Any, keys: None) -> None:
    """What a tenant's own pod is sent by the operator is worth nothing at a neighbor's."""
    assert await turn(pod, OPERATOR.token("uid-of-the-tenants-pod", 2, time.time())) == 403
    assert obeys(pod) == 1


async def test_the_control_api_is_not_behind_the_port_that_a_service_shows(
    pod: Any, keys: None, call: Callable[..., Any]
) -> None:
    assert await turn(pod, OPERATOR.token("uid-0", 2, time.time()), pod.url) == 404
    async with pod.session.get(f"{pod.url}{names.PATH_STATE}") as reply:
        assert reply.status == 404
    assert obeys(pod) == 1
