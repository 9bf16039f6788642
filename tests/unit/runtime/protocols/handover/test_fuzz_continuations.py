"""Fuzz test of continuations: odd ones are rejected by field, valid ones end, and none leaves a sequence behind."""

import json
import logging
from collections import Counter
from collections.abc import Callable
from pathlib import Path
from random import Random
from typing import Any, Final

import httpx2
import pytest

from penstock_api import names
from penstock_runtime.protocols.handover.body import FIELDS
from penstock_runtime.serving.generation.handover.messages import (
    LENGTH_BYTES,
    End,
    Finished,
    Tokens,
    WireEvent,
    decode_events,
    model_identity,
)
from tests.support.fuzz.budget import Fuzz
from tests.support.fuzz.texts import damage, dumped, spoil
from tests.unit.runtime.protocols.openai.served import POSITIONS, Served

Serve = Callable[..., Served]
VOCABULARY: Final = 1024
NUMBERS: Final = (
    *(-1, 0, 1, 2, 128, 129, VOCABULARY - 1, VOCABULARY, POSITIONS, 2**31 - 1, 2**31, 2**63, 2**64),
    *(-0.5, 0.5, 1.0, 1e308, float("nan"), float("inf"), -float("inf"), True, None, "1"),
)
GRAMMARS: Final[tuple[dict[str, Any], ...]] = (
    {"kind": "Regex", "text": "[0-9]+"},
    {"kind": "Regex", "text": "("},
    {"kind": "JsonSchema", "text": "{}"},
    {"kind": "Lark", "text": "a"},
    {"kind": "None", "text": ""},
)
EXTRA: Final[tuple[dict[str, Any], ...]] = (
    {"stop": "a"},
    {"stream": True},
    {"response_format": {"type": "json_object"}},
    {"best_of": 2},
    {"invented": 1},
)


def tree_of(identity: str, draw: Random) -> dict[str, Any]:
    """Return a valid continuation."""

    def ids(least: int, most: int) -> list[int]:
        return [draw.randrange(1, VOCABULARY) for _ in range(draw.randint(least, most))]

    n = draw.choice((1, 1, 2, 3))
    tree: dict[str, Any] = {
        "identity": identity,
        "prompt": ids(1, 5),
        "resumed": [
            {"choice": choice, "tokens": ids(0, 5)}
            for choice in draw.sample(range(n), draw.randint(1, n))
        ],
        "n": n,
        "max_tokens": draw.randint(6, 9),
        "seed": draw.randrange(2**63),
        "ignore_eos": True,
        "stop_token_ids": [0],
        "logprobs": draw.choice((None, 0, 2)),
    }
    optional = {
        "min_tokens": 2, "temperature": 0, "top_p": 0.5, "top_k": 3, "min_p": 0.1, "repetition_penalty": 1.2,
        "presence_penalty": 0.5, "frequency_penalty": -0.5, "logit_bias": {"5": 1.0}, "priority": 2, "tenant": "other",
        "cache_salt": "a", "timeout": 30.0, "grammar": draw.choice(GRAMMARS),
    }  # fmt: skip
    return tree | {name: value for name, value in optional.items() if draw.random() < 0.15}


def make_odd(tree: dict[str, Any], draw: Random) -> bytes:
    """Return `tree` with one fault or several, as bytes."""
    entry = draw.choice(tree["resumed"])
    match draw.randrange(9):
        case 0:
            draw.choice((tree["prompt"], entry["tokens"])).append(draw.choice(NUMBERS))
        case 1:
            entry["choice"] = draw.choice((tree["n"], -1, 127, 128, 2**40))
        case 2:
            tree["resumed"] = tree["resumed"] * draw.choice((0, 2, 129))
        case 3:
            entry["tokens"] = [5] * draw.choice((tree["max_tokens"], POSITIONS, 5 * POSITIONS))
        case 4:
            tree["prompt"] = [5] * draw.choice((0, POSITIONS - 1, POSITIONS, 5 * POSITIONS))
        case 5:
            tree.update(json.loads(json.dumps(draw.choice(EXTRA))))
        case 6:
            draw.choice((entry, tree.setdefault("grammar", {})))["invented"] = 1
        case 7:
            tree[draw.choice(sorted(FIELDS - {"prompt", "resumed"}))] = draw.choice(NUMBERS)
        case _:
            text = dumped(spoil(tree, draw), draw)
            return damage(text, draw) if draw.random() < 0.5 else text
    return json.dumps(tree).encode()


def events_of(answer: bytes) -> list[WireEvent]:
    """Return the events of all frames."""
    events: list[WireEvent] = []
    while answer:
        size = LENGTH_BYTES + int.from_bytes(answer[:LENGTH_BYTES])
        assert len(answer) >= size, "the last frame is cut off"
        events += decode_events(answer[LENGTH_BYTES:size])
        answer = answer[size:]
    return events


def check_continued(answer: bytes, raw: bytes) -> None:
    """Check that every choice got no more tokens than were left, and that the generation ended once."""
    body, left = json.loads(raw), Counter[int]()
    for entry in body["resumed"]:
        left[entry["choice"]] = body["max_tokens"] - len(entry["tokens"])
    *events, last = events_of(answer)
    assert isinstance(last, End)
    for event in events:
        assert isinstance(event, Tokens | Finished)
        assert event.choice in left
        if isinstance(event, Tokens):
            left[event.choice] -= len(event.tokens)
    assert min(left.values()) >= 0


def check_rejected(answer: httpx2.Response) -> None:
    """Check the status and the form of a rejection."""
    assert answer.status_code in (400, 404, 409, 413, 429, 504)
    body = answer.json()
    assert body["error"]
    if answer.status_code == 400:
        assert body.get("field", "").split(".")[0] in FIELDS | {"body"} or (
            "is not supported here" in body["error"]
        )


def continuations(pod: Served, fuzz: Fuzz) -> None:
    """Send continuations, some of which their client leaves."""
    draw, counts = fuzz.random, Counter[int]()
    identity = model_identity(pod.pod.engine.require_serving().info)
    with httpx2.Client(base_url=pod.url, timeout=60) as http:
        for _ in fuzz.rounds():
            tree = tree_of(identity, draw)
            odd = draw.random() < 0.7
            raw = make_odd(tree, draw) if odd else json.dumps(tree).encode()
            where = f"{fuzz.where()}: {raw!r}"
            with http.stream("POST", names.PATH_HANDOVER, content=raw) as answer:
                counts[answer.status_code] += 1
                if draw.random() < 0.1:
                    continue
                answer.read()
                try:
                    if answer.status_code == 200:
                        check_continued(answer.content, raw)
                    else:
                        check_rejected(answer)
                except Exception as error:
                    raise AssertionError(f"{where} -> {answer.content[:300]!r}") from error
    print(dict(counts))
    assert min(counts[200], counts[400]) > fuzz.done / 10
    counters, admission = pod.pod.counters, pod.pod.admission
    pod.until(lambda: counters.received == counters.settled() and admission.empty())
    load = pod.ask(admission.load)
    assert (load.waiting, load.running) == (0, 0)


def test_odd_continuations_are_rejected_and_none_stays(
    serve: Serve, caplog: pytest.LogCaptureFixture
) -> None:
    continuations(serve(), Fuzz("continuations", 120, seed=1))
    assert [record for record in caplog.records if record.levelno >= logging.ERROR] == []


def test_the_choices_of_a_continuation_are_counted_before_they_are_generated(serve: Serve) -> None:
    pod = serve(max_held_bytes=400_000)
    tree = tree_of(model_identity(pod.pod.engine.require_serving().info), Random(1))  # noqa: S311

    def send(choices: int) -> int:
        resumed = [{"choice": choice, "tokens": [5]} for choice in range(choices)]
        changes = {"n": 128, "resumed": resumed}
        return httpx2.post(
            pod.url + names.PATH_HANDOVER, json=tree | changes, timeout=60
        ).status_code

    assert (send(64), send(128)) == (200, 413)
    release = pod.ask(lambda: pod.pod.admission.memory.hold_apart(300_000))
    assert send(64) == 429
    pod.ask(release)
    assert pod.ask(lambda: pod.pod.admission.memory.held_bytes) == 0


KEYS: Final = '{"keys": [{"key": "secret-of-a", "tenant": "a", "maxTokens": 8}]}'


def test_a_continuation_needs_the_key_of_its_client(serve: Serve, tmp_path: Path) -> None:
    (tmp_path / "keys.json").write_text(KEYS)
    pod = serve(api_keys_file=tmp_path / "keys.json")
    assert pod.pod.callers._ring is not None
    pod.pod.callers._ring.reload()
    tree = tree_of(model_identity(pod.pod.engine.require_serving().info), Random(1))  # noqa: S311
    tree["max_tokens"] = 8

    def send(key: str = "", **changes: Any) -> tuple[int, str]:
        headers = {"Authorization": f"Bearer {key}"} if key else {}
        answer = httpx2.post(
            pod.url + names.PATH_HANDOVER, json={**tree, **changes}, headers=headers, timeout=60
        )
        return answer.status_code, answer.text if answer.status_code != 200 else ""

    assert send()[0] == send("another")[0] == 401
    status, text = send("secret-of-a", max_tokens=9)
    assert (status, "max_tokens" in text) == (400, True)
    assert send("secret-of-a", tenant="b") == send("secret-of-a", tenant="a") == (200, "")
    assert send("secret-of-a", identity="other")[0] == 409


@pytest.mark.long
@pytest.mark.timeout(7200)
def test_many_odd_continuations_are_rejected_and_none_stays(serve: Serve) -> None:
    continuations(serve(), Fuzz("continuations", 30_000))
