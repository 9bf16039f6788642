"""Pushes of limits to pods over real sockets, with tokens that the runtime verifies."""

import asyncio
import json
import time
from collections.abc import AsyncIterator, Callable
from functools import partial
from pathlib import Path

import jwt
import pytest
from aiohttp import web

from penstock_api.names import PATH_LIMITS, PATH_STATE
from penstock_api.pod_contract import (
    CurveSums,
    Discipline,
    Envelope,
    Limits,
    LimitsUpdate,
    Loading,
    LoadStage,
    PodLoad,
    Range,
    State,
)
from penstock_operator.act.pod_limits import PodControl
from penstock_operator.act.signing_key import PUBLISH_SECONDS, rotated
from penstock_operator.decide.actions import LimitsPush
from penstock_operator.errors import NotLeading
from penstock_operator.net.http import new_session
from penstock_operator.net.tokens import TOKEN_SECONDS, BadSigningKey, Signer
from penstock_operator.observed import Acknowledgement
from penstock_runtime.protocols.control.auth import (
    LEEWAY_SECONDS,
    Forbidden,
    TokenVerifier,
    Unauthorized,
)
from tests.unit.operator.observe.signals.exporter import free_address, never, pod_object, serving

SIGNER = Signer.generate()
UPDATE = LimitsUpdate(
    max_batch_size=16,
    max_queue_depth=100,
    max_queue_delay_milliseconds=5,
    discipline=Discipline.FIRST_IN_FIRST_OUT,
    generation=9,
)


def state(generation: int) -> State:
    """Return the state in a pod's response."""
    return State(
        generation=generation,
        limits=Limits(**UPDATE.limits().model_dump()),
        envelope=Envelope(
            max_batch_size=Range(min=1, max=64),
            max_queue_depth=Range(min=1, max=1000),
            max_queue_delay_milliseconds=Range(min=0, max=1000),
        ),
        effective_max=64,
        converging=False,
        load=PodLoad(waiting=0, running=0),
        curve=CurveSums(),
        model="chat",
        backend="cpu",
    )


@pytest.fixture
async def control() -> AsyncIterator[PodControl]:
    """Yield a client with a real session."""
    async with new_session() as session:
        yield PodControl(session, SIGNER, time.time, lambda: True)


def keys_file(folder: Path, signer: Signer = SIGNER) -> Path:
    """Write the public keys in the format of the pods' settings."""
    path = folder / "control-keys.json"
    path.write_text(json.dumps({signer.kid: signer.public_key()}))
    return path


def answering(status: int, body: object) -> Callable[[web.Request], object]:
    async def answer(_: web.Request) -> web.Response:
        return web.json_response(body, status=status)

    return answer


async def pushed(control: PodControl, handler: object) -> Acknowledgement:
    """Push to one pod with this handler; return the acknowledgement."""
    async with serving(web.patch(PATH_LIMITS, handler)) as ip:  # type: ignore[arg-type]
        return (await control.push([LimitsPush("uid-1", ip, UPDATE)]))["uid-1"]


async def test_a_pod_verifies_the_token_and_acknowledges_by_generation(
    control: PodControl, tmp_path: Path
) -> None:
    verifier = TokenVerifier(keys_file(tmp_path), "uid-1")

    async def patch(request: web.Request) -> web.Response:
        update = LimitsUpdate.model_validate_json(await request.read())
        (await verifier.verify(request.headers["Authorization"])).check(update.generation)
        return web.Response(text=state(update.generation).model_dump_json(by_alias=True))

    assert await pushed(control, patch) == Acknowledgement(generation=9, effective_max=64)


async def test_the_state_is_read_with_a_token(control: PodControl, tmp_path: Path) -> None:
    verifier = TokenVerifier(keys_file(tmp_path), "uid-1")

    async def get(request: web.Request) -> web.Response:
        await verifier.verify(request.headers["Authorization"])
        return web.Response(text=state(8).model_dump_json(by_alias=True))

    async with serving(web.get(PATH_STATE, get)) as ip:
        acks = await control.read([pod_object("uid-1", ip), pod_object("uid-2", None)])
    assert acks == {"uid-1": Acknowledgement(generation=8, effective_max=64)}


async def test_the_rejection_of_an_older_generation_contains_the_pods_own(
    control: PodControl,
) -> None:
    body = {"error": "generation 9 is older than 12", "field": "generation", "generation": 12}
    ack = await pushed(control, answering(409, body))
    assert ack.generation == 12
    assert ack.effective_max is None
    assert "generation 9 is older than 12" in ack.problem


async def test_a_rejected_value_is_a_problem_with_the_pods_message(control: PodControl) -> None:
    ack = await pushed(control, answering(422, {"error": "`maxBatchSize`: too large"}))
    assert ack == Acknowledgement(
        None, None, f"{PATH_LIMITS} responded 422: `maxBatchSize`: too large"
    )


@pytest.mark.parametrize(
    ("body", "field"),
    [
        ({"generation": -1}, "generation"),
        ({"generation": 9, "effectiveMax": 10**9}, "effectiveMax"),
        ([], "body"),
        ({"generation": "NaN"}, "generation"),
    ],
)
async def test_a_state_out_of_range_is_a_problem(
    control: PodControl, body: object, field: str
) -> None:
    complete = (
        {**json.loads(state(9).model_dump_json(by_alias=True)), **body}
        if isinstance(body, dict)
        else body
    )
    ack = await pushed(control, answering(200, complete))
    problem = f"{PATH_LIMITS} returned an invalid state: {field}"
    assert ack == Acknowledgement(None, None, problem)


async def test_redirects_large_and_missing_answers_are_problems(control: PodControl) -> None:
    async def redirect(_: web.Request) -> web.Response:
        raise web.HTTPTemporaryRedirect("http://127.0.0.1:1/")

    async def huge(_: web.Request) -> web.Response:
        return web.Response(body=b" " * 100_000)

    async def nested(_: web.Request) -> web.Response:
        return web.Response(text="[" * 60_000, status=422)

    assert (await pushed(control, nested)).problem == f"{PATH_LIMITS} responded 422"
    problems = {
        (await pushed(control, redirect)).problem: "redirect",
        (await pushed(control, huge)).problem: "more than 65536 bytes",
        (await control.push([LimitsPush("u", free_address(), UPDATE)]))[
            "u"
        ].problem: "is unreachable",
    }
    for problem, words in problems.items():
        assert words in problem


@pytest.mark.usefixtures("impatient")
async def test_an_answer_that_never_comes_is_a_problem(control: PodControl) -> None:
    assert "did not respond within 2 s" in (await pushed(control, never)).problem


async def test_a_loading_pod_reports_its_progress(control: PodControl) -> None:
    loading = {"stage": "Fetching", "loadedBytes": 3, "totalBytes": 4}
    body = {"error": "the model is being loaded", "loading": loading}
    ack = await pushed(control, answering(503, body))
    assert ack.loading == Loading(stage=LoadStage.FETCHING, loaded_bytes=3, total_bytes=4)
    bad: object
    for bad in (
        None,
        {"stage": "Flying"},
        {**loading, "loadedBytes": -1},
        [],
        {"loadedBytes": 2**80},
    ):
        ack = await pushed(control, answering(503, {"error": "no", "loading": bad}))
        assert (ack.loading, ack.generation) == (None, None)


async def test_one_slow_pod_does_not_delay_a_hundred(control: PodControl) -> None:
    answered = list[str]()
    all_others = asyncio.Event()

    async def quick(request: web.Request) -> web.Response:
        answered.append(request.path)
        if len(answered) == 99:
            all_others.set()
        return web.Response(text=state(9).model_dump_json(by_alias=True))

    async def last(_: web.Request) -> web.Response:
        await all_others.wait()
        return web.Response(status=500)

    async with (
        serving(web.patch(PATH_LIMITS, quick)) as fast,
        serving(web.patch(PATH_LIMITS, last)) as slow,
    ):
        pushes = [LimitsPush(f"uid-{i}", slow if i == 0 else fast, UPDATE) for i in range(100)]
        acks = await control.push(pushes)
    assert acks["uid-0"].problem == f"{PATH_LIMITS} responded 500"
    assert sum(ack.generation == 9 for ack in acks.values()) == 99
    assert acks["uid-0"].generation is None


async def test_a_token_is_for_one_pod_one_generation_and_thirty_seconds(tmp_path: Path) -> None:
    path, now = keys_file(tmp_path), time.time()
    token = SIGNER.token("uid-1", 9, now)
    (await TokenVerifier(path, "uid-1").verify(f"Bearer {token}")).check(9)
    with pytest.raises(Forbidden):
        await TokenVerifier(path, "uid-2").verify(f"Bearer {token}")
    with pytest.raises(Forbidden):
        (await TokenVerifier(path, "uid-1").verify(f"Bearer {token}")).check(10)
    with pytest.raises(Unauthorized, match="expired"):
        await TokenVerifier(path, "uid-1").verify(f"Bearer {SIGNER.token('uid-1', 9, now - 60)}")
    other = Signer.generate()
    with pytest.raises(Unauthorized, match="key id"):
        await TokenVerifier(path, "uid-1").verify(f"Bearer {other.token('uid-1', 9, now)}")
    assert jwt.get_unverified_header(token) == {"alg": "EdDSA", "typ": "JWT", "kid": SIGNER.kid}


async def test_a_token_is_accepted_once_and_forgotten_after_its_expiry(
    tmp_path: Path,
) -> None:
    now = [1_000_000.0]
    verifier = TokenVerifier(keys_file(tmp_path), "uid-1", lambda: now[0])
    token = f"Bearer {SIGNER.token('uid-1', 9, now[0])}"
    await verifier.verify(token)
    with pytest.raises(Unauthorized, match="used before"):
        await verifier.verify(token)
    now[0] += TOKEN_SECONDS + LEEWAY_SECONDS + 1
    with pytest.raises(Unauthorized, match="expired"):
        await verifier.verify(token)
    await verifier.verify(f"Bearer {SIGNER.token('uid-1', 9, now[0])}")
    assert len(verifier._used) == 1


async def test_a_pod_whose_clock_is_five_minutes_off_accepts_or_reports_it(tmp_path: Path) -> None:
    path, now = keys_file(tmp_path), 1_000_000.0
    slow = TokenVerifier(path, "uid-1", lambda: now - 300)
    fast = TokenVerifier(path, "uid-1", lambda: now + 300)
    await slow.verify(f"Bearer {SIGNER.token('uid-1', 9, now)}")
    with pytest.raises(Unauthorized, match="correct the node's clock"):
        await fast.verify(f"Bearer {SIGNER.token('uid-1', 9, now)}")


async def test_a_rotation_of_keys_never_invalidates_a_call(tmp_path: Path) -> None:
    """Pods read the key ring up to PUBLISH_SECONDS late; they always have the signing key by then."""
    ring, path = rotated(None, 0.0), tmp_path / "control-keys.json"
    published = ring.public_keys()
    for day in range(65):
        now = day * 86_400.0
        ring = rotated(ring, now)
        for late in (0.0, PUBLISH_SECONDS - 1, PUBLISH_SECONDS, 7200.0):
            if late >= PUBLISH_SECONDS:
                published = ring.public_keys()
            path.write_text(json.dumps(dict(published)))
            moment = now + late
            token = ring.signer(moment).token("uid-1", 9, moment)
            await TokenVerifier(path, "uid-1", partial(float, moment)).verify(f"Bearer {token}")
    assert len(set(published)) == 1, "the keys before the last one are retired"


def test_a_key_is_equal_after_a_round_trip_through_its_secret() -> None:
    again = Signer.from_pem(SIGNER.pem())
    assert (again.kid, again.public_key()) == (SIGNER.kid, SIGNER.public_key())


def test_a_bad_key_is_rejected_with_a_message() -> None:
    with pytest.raises(BadSigningKey, match="PKCS#8"):
        Signer.from_pem(b"not a key")


async def test_nothing_is_sent_to_a_pod_after_the_lease_is_lost() -> None:
    requests: list[str] = []

    async def patch(request: web.Request) -> web.Response:
        requests.append(request.path)
        return web.json_response({}, status=500)

    async with new_session() as session, serving(web.patch(PATH_LIMITS, patch)) as ip:
        stale = PodControl(session, SIGNER, time.time, lambda: False)
        with pytest.raises(NotLeading):
            await stale.push([LimitsPush("uid-1", ip, UPDATE)])
    assert requests == []


@pytest.mark.usefixtures("impatient")
async def test_silent_pods_of_one_pool_delay_no_push_to_another() -> None:
    ok = state(9).model_dump_json(by_alias=True)

    async def patch(_: web.Request) -> web.Response:
        return web.Response(text=ok)

    async with (
        new_session() as session,
        serving(web.patch(PATH_LIMITS, never)) as nowhere,
        serving(web.patch(PATH_LIMITS, patch)) as ip,
    ):
        gone, *well = (PodControl(session, SIGNER, time.time, lambda: True) for _ in range(21))
        unanswered, *acks = await asyncio.gather(
            gone.push([LimitsPush(f"silent-{i}", nowhere, UPDATE) for i in range(200)]),
            *(control.push([LimitsPush("uid-1", ip, UPDATE)]) for control in well),
        )
    assert {ack["uid-1"].problem for ack in acks} == {""}
    assert {ack.generation for ack in unanswered.values()} == {None}
