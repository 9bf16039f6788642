"""The control API under any JSON: a rejected PATCH is 4xx, names its field and changes nothing; an accepted one is what it said."""

import json
from typing import Any, Final

import pytest

from tests.support.fuzz.budget import Fuzz
from tests.support.fuzz.texts import MARK, damage, dumped, odd_value, spoil

LIMITS: Final = {
    "maxBatchSize": range(1, 4097),
    "maxQueueDepth": range(1, 1_000_001),
    "maxQueueDelayMilliseconds": range(60_001),
    "maxBatchedTokens": range(1, 1_048_577),
}
WORDS: Final = {
    "discipline": ("FirstInFirstOut", "Priority", "EarliestDeadlineFirst", "ShortestJobFirst", "FairShare"),
    "preemption": ("Never", "LowerPriority", "TimeSlice"),
    "drain": ("Finish", "Evict"),
}  # fmt: skip
PLAIN: Final = {"Authorization": "none"}


def update(generation: int, fuzz: Fuzz) -> dict[str, Any]:
    """Return a PATCH of some limits, mostly right."""
    draw = fuzz.random
    body: dict[str, Any] = {"generation": generation}
    for name, allowed in LIMITS.items():
        if draw.random() < 0.4:
            body[name] = draw.choice(
                (allowed[0], allowed[-1], draw.choice(allowed), draw.choice(allowed))
            )
    for name, words in WORDS.items():
        if draw.random() < 0.4:
            body[name] = draw.choice(words)
    if draw.random() < 0.1:
        body["maxBatchedTokens"] = None
    return body


def body_of(generation: int, fuzz: Fuzz) -> bytes:
    draw = fuzz.random
    kind = draw.random()
    if kind < 0.05:
        return odd_value(draw)
    tree = update(generation, fuzz)
    if kind < 0.1:
        tree[draw.choice(("max_batch_size", "limits", "Drain", ""))] = MARK
    elif kind < 0.6:
        spoil(tree, draw)
    text = dumped(tree, draw)
    return damage(text, draw) if kind > 0.9 else text


def is_right(name: str, value: Any) -> bool:
    """Return whether `value` is exactly of the limit's type and range."""
    if name in WORDS:
        return isinstance(value, str) and value in WORDS[name]
    if value is None:
        return name == "maxBatchedTokens"
    return type(value) is int and value in LIMITS[name]


async def nothing_is_coerced(pod: Any, fuzz: Fuzz) -> None:
    limits, state_url = (f"{pod.cluster_url}/control/v1/{path}" for path in ("limits", "state"))
    accepted = 0
    async with pod.session.get(state_url, headers=PLAIN) as reply:
        state = await reply.json()
    for _ in fuzz.rounds():
        body = body_of(state["generation"] + fuzz.random.choice((1, 1, 1, 1, 0, -1, 5)), fuzz)
        where = f"{fuzz.where()}: {body!r} over {state['limits']}"
        async with pod.session.patch(limits, data=body, headers=PLAIN) as reply:
            status, answer = reply.status, await reply.json()
        if status != 200:
            assert status in (409, 413, 422), (where, answer)
            assert answer["field"], (where, answer)
            assert answer["error"], (where, answer)
        else:
            accepted += 1
            given = json.loads(body)
            generation = given.pop("generation")
            assert type(generation) is int, where
            assert all(is_right(*entry) for entry in given.items()), where
            state = {"generation": generation, "limits": state["limits"] | given}
        async with pod.session.get(state_url, headers=PLAIN) as reply:
            now = await reply.json()
        assert now["limits"] == state["limits"], where
        assert now["generation"] == state["generation"], where
    print(f"{accepted} of {fuzz.done} were accepted")
    assert 0.05 < accepted / fuzz.done < 0.95


async def test_no_patch_is_coerced_or_half_applied(start: Any) -> None:
    await nothing_is_coerced(await start(insecure_control=True), Fuzz("control", 400, seed=1))


@pytest.mark.long
@pytest.mark.timeout(3600)
async def test_no_patch_of_many_is_coerced_or_half_applied(start: Any) -> None:
    await nothing_is_coerced(await start(insecure_control=True), Fuzz("control", 50_000))
