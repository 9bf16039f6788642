"""The control API: authentication, accepted limits, and the acknowledgement of a generation."""

import asyncio
import base64
import json
import secrets
import time
from collections.abc import Callable
from pathlib import Path
from typing import Any

import jwt
import pytest
from cryptography.hazmat.primitives.asymmetric.ed25519 import Ed25519PrivateKey
from cryptography.hazmat.primitives.serialization import Encoding, PublicFormat

KEY, OTHER_KEY = Ed25519PrivateKey.generate(), Ed25519PrivateKey.generate()


def write_keys(folder: Path, **keys: Ed25519PrivateKey) -> None:
    raw = {
        kid: base64.b64encode(
            key.public_key().public_bytes(Encoding.Raw, PublicFormat.Raw)
        ).decode()
        for kid, key in keys.items()
    }
    (folder / "control-keys.json").write_text(json.dumps(raw))


def token(key: Ed25519PrivateKey = KEY, kid: str = "k1", **claims: Any) -> dict[str, str]:
    fresh = {"exp": time.time() + 30, "jti": secrets.token_hex(16)}
    claims = {"aud": "uid-0", "generation": 2, **fresh, **claims}
    claims = {name: value for name, value in claims.items() if value is not None}
    return {"Authorization": "Bearer " + jwt.encode(claims, key, "EdDSA", {"kid": kid})}


def limits(**changes: Any) -> dict[str, Any]:
    return {
        "generation": 2,
        "maxBatchSize": 16,
        "maxQueueDepth": 5,
        "maxQueueDelayMilliseconds": 3,
        "discipline": "Priority",
        **changes,
    }


@pytest.fixture
def keys(tmp_path: Path) -> Path:
    write_keys(tmp_path, k1=KEY)
    return tmp_path


async def patch(pod: Any, body: Any, headers: dict[str, str] | None = None) -> tuple[int, Any]:
    url = f"{pod.cluster_url}/control/v1/limits"
    async with pod.session.patch(url, json=body, headers=headers or token()) as reply:
        return reply.status, await reply.json()


async def state(pod: Any, headers: dict[str, str] | None = None) -> tuple[int, Any]:
    url = f"{pod.cluster_url}/control/v1/state"
    async with pod.session.get(url, headers=headers or token()) as reply:
        return reply.status, await reply.json()


async def test_the_state_has_limits_envelope_load_and_curve(
    pod: Any, keys: Path, call: Callable[..., Any]
) -> None:
    async with await pod.infer(call(rows=3)):
        pass
    status, answer = await state(pod)
    assert status == 200
    assert answer["generation"] == 1
    assert answer["limits"]["maxBatchSize"] == 8
    assert answer["envelope"]["maxBatchSize"] == {"min": 1, "max": 4096}
    assert answer["effectiveMax"] == 128
    assert answer["converging"] is False
    assert answer["load"] == {"waiting": 0, "running": 0}
    assert answer["curve"]["batches"] == 1
    assert answer["curve"]["costUnits"] == 3
    assert (answer["model"], answer["backend"]) == ("halves", "cpu")


async def test_new_limits_are_acknowledged_when_the_engine_applies_them(
    pod: Any, keys: Path
) -> None:
    status, answer = await patch(pod, limits())
    assert (status, answer["generation"]) == (200, 2)
    unset = {"maxBatchedTokens": None, "preemption": "Never", "drain": "Finish"}
    assert answer["limits"] == unset | {k: v for k, v in limits().items() if k != "generation"}
    assert (await patch(pod, limits()))[0] == 200, "the same generation again changes nothing"


async def test_a_running_batch_delays_the_acknowledgement_never_the_acceptance(
    pod: Any, keys: Path, call: Callable[..., Any], until: Any
) -> None:
    pod.model.gate.clear()
    running = asyncio.create_task(pod.infer(call()))
    await until(lambda: pod.pod.admission.load().running == 1)
    status, answer = await patch(pod, limits())
    assert (status, answer["generation"]) == (200, 1)
    pod.model.gate.set()
    assert (await running).status == 200
    await until(lambda: pod.pod.live.in_force.generation == 2)
    assert (await state(pod))[1]["generation"] == 2


async def test_an_older_generation_is_409_with_the_pods_own(pod: Any, keys: Path) -> None:
    await patch(pod, limits(generation=7), token(generation=7))
    status, answer = await patch(pod, limits())
    assert (status, answer["generation"], answer["field"]) == (409, 7, "generation")


async def test_other_limits_under_the_same_generation_are_409(pod: Any, keys: Path) -> None:
    await patch(pod, limits())
    status, answer = await patch(pod, limits(maxBatchSize=17))
    assert (status, answer["generation"]) == (409, 2)


async def test_a_cap_above_memory_is_accepted_and_clamped(pod: Any, keys: Path) -> None:
    status, answer = await patch(pod, limits(maxBatchSize=4096))
    assert status == 200
    assert (answer["limits"]["maxBatchSize"], answer["effectiveMax"]) == (4096, 128)
    assert pod.pod.live.effective_cap == 128


@pytest.mark.parametrize(
    ("body", "field"),
    [
        (limits(maxBatchSize=0), "maxBatchSize"),
        (limits(maxBatchSize=4097), "maxBatchSize"),
        (limits(maxQueueDepth=0), "maxQueueDepth"),
        (limits(maxQueueDelayMilliseconds=60_001), "maxQueueDelayMilliseconds"),
        (limits(discipline="Random"), "discipline"),
        (limits(generation=-1), "generation"),
        (limits(maxBatchSize="many"), "maxBatchSize"),
        (limits(colour="red"), "colour"),
        (limits(maxBatchSize=True), "maxBatchSize"),
        (limits(maxBatchSize="4"), "maxBatchSize"),
        (limits(maxBatchSize=4.0), "maxBatchSize"),
        (limits(maxBatchSize=None), "maxBatchSize"),
        (limits(maxBatchedTokens=True), "maxBatchedTokens"),
        (limits(maxQueueDelayMilliseconds="3"), "maxQueueDelayMilliseconds"),
        (limits(generation=True), "generation"),
        (limits(generation="2"), "generation"),
        (limits(discipline=1), "discipline"),
        (limits(drain=False), "drain"),
        (limits(preemption=None), "preemption"),
        (limits(max_batch_size=4), "max_batch_size"),
        ({"maxBatchSize": 4}, "generation"),
        ({}, "generation"),
        ([], "body"),
        ("generation", "body"),
    ],
)
async def test_limits_outside_the_envelope_are_422_with_the_field(
    pod: Any, keys: Path, body: Any, field: str
) -> None:
    status, answer = await patch(pod, body)
    assert (status, answer["field"]) == (422, field), answer
    assert (await state(pod))[1]["generation"] == 1


@pytest.mark.parametrize("body", [b"{", b"", b"\xff", b"[" * 8000, b'{"generation": NaN}'])
async def test_a_body_that_is_not_json_is_422(pod: Any, keys: Path, body: bytes) -> None:
    url = f"{pod.cluster_url}/control/v1/limits"
    async with pod.session.patch(url, data=body, headers=token()) as reply:
        assert (reply.status, (await reply.json())["field"]) == (422, "body")


async def test_a_limit_that_is_left_out_stays_as_it_is(pod: Any, keys: Path) -> None:
    more = {"maxBatchedTokens": 64, "preemption": "LowerPriority", "drain": "Evict"}
    assert (await patch(pod, limits(**more)))[0] == 200
    status, answer = await patch(pod, {"generation": 3, "maxBatchSize": 32}, token(generation=3))
    assert (status, answer["generation"]) == (200, 3)
    expected = limits(**more, maxBatchSize=32)
    del expected["generation"]
    assert answer["limits"] == expected
    status, answer = await patch(pod, {"generation": 3, "maxBatchSize": 32}, token(generation=3))
    assert status == 200, "the same again changes nothing"
    status, answer = await patch(
        pod, {"generation": 4, "maxBatchedTokens": None}, token(generation=4)
    )
    assert (status, answer["limits"]) == (200, expected | {"maxBatchedTokens": None})


async def test_a_body_that_is_too_large_or_of_an_unknown_coding_is_rejected(
    pod: Any, keys: Path
) -> None:
    url = f"{pod.cluster_url}/control/v1/limits"
    for body, headers, status in (
        (b" " * 2**17, {}, 413),
        (b"{}", {"Content-Encoding": "br"}, 415),
    ):
        async with pod.session.patch(url, data=body, headers=token() | headers) as reply:
            assert reply.status == status
            assert (await reply.json())["field"]


@pytest.mark.parametrize(
    ("headers", "status"),
    [
        ({"Authorization": ""}, 401),
        ({"Authorization": "Basic abc"}, 401),
        ({"Authorization": "Bearer not-a-token"}, 401),
        ({"Authorization": "Bearer " + jwt.encode({"aud": "uid-0", "exp": 2e9}, "", "none")}, 401),
        (lambda: token(OTHER_KEY), 401),
        (lambda: token(kid="k9"), 401),
        (lambda: token(exp=time.time() - 60), 401),
        (lambda: token(exp=None), 401),
        (lambda: token(exp="soon"), 401),
        (lambda: token(exp=float("inf")), 401),
        (lambda: token(jti=None), 401),
        (lambda: token(aud=None), 401),
        (lambda: token(aud="uid-1"), 403),
        (lambda: token(generation=3), 403),
        (lambda: token(generation=None), 403),
    ],
)  # fmt: skip
async def test_an_invalid_token_changes_no_limit(
    pod: Any, keys: Path, headers: Any, status: int
) -> None:
    code, answer = await patch(pod, limits(), headers() if callable(headers) else headers)
    assert (code, answer["field"]) == (status, "Authorization")
    assert pod.pod.live.accepted.generation == 1


async def test_a_token_changes_the_limits_once(pod: Any, keys: Path) -> None:
    used = token()
    assert (await patch(pod, limits(), used))[0] == 200
    status, answer = await patch(pod, limits(), used)
    assert status == 401
    assert "used before" in answer["error"]
    assert (await state(pod, used))[0] == 401, "nor does it read"
    assert (await patch(pod, limits(), token()))[0] == 200


async def test_a_token_is_used_up_by_the_call_it_came_with_whatever_came_of_it(
    pod: Any, keys: Path
) -> None:
    used = token()
    assert (await patch(pod, limits(generation=3), used))[0] == 403
    assert (await patch(pod, limits(), used))[0] == 401


async def test_the_state_needs_a_token_too(pod: Any, keys: Path) -> None:
    assert (await state(pod, {"Authorization": "no"}))[0] == 401
    assert (await state(pod, token(aud="uid-1")))[0] == 403
    assert (await state(pod, token(generation=None)))[0] == 200


async def test_a_new_key_counts_at_once_and_an_old_one_no_longer(pod: Any, tmp_path: Path) -> None:
    assert (await state(pod))[0] == 401, "without a keys file every call is rejected"
    write_keys(tmp_path, k1=KEY)
    assert (await state(pod))[0] == 200
    write_keys(tmp_path, k2=OTHER_KEY)
    assert (await state(pod))[0] == 401
    assert (await state(pod, token(OTHER_KEY, "k2")))[0] == 200


@pytest.mark.parametrize("text", ["", "[]", '{"k1": "short"}', '{"k1": 5}'])
async def test_broken_keys_are_a_rejection_not_a_crash(pod: Any, tmp_path: Path, text: str) -> None:
    (tmp_path / "control-keys.json").write_text(text)
    assert (await state(pod))[0] == 401


async def test_local_development_may_do_without_tokens(start: Any) -> None:
    pod = await start(insecure_control=True)
    assert (await patch(pod, limits(), {"X": "y"}))[0] == 200
