"""What two pods say about one generation, and what is still to be generated after each attempt."""

import json

import msgspec
import pytest

from penstock_runtime.engine.continuous.grammar.spec import GrammarKind, GrammarSpec
from penstock_runtime.engine.continuous.messages import FinishReason, Logprob, Resumption
from penstock_runtime.engine.continuous.sampling_params import SamplingParams
from penstock_runtime.errors import BadInput
from penstock_runtime.protocols.handover.body import ContinuationBody
from penstock_runtime.protocols.openai.wire.base import read
from penstock_runtime.serving.generation.handover import messages
from penstock_runtime.serving.generation.handover.progress import (
    MAX_FRUITLESS,
    MAX_PAUSE_SECONDS,
    Progress,
)
from penstock_runtime.serving.generation.request import GenerationCall, GrammarShape, Prompt

PARAMS = SamplingParams(
    max_tokens=40,
    min_tokens=3,
    temperature=0.1 + 0.2,
    top_p=0.9,
    top_k=7,
    min_p=0.01,
    repetition_penalty=1.1,
    presence_penalty=-0.3,
    frequency_penalty=0.7,
    logit_bias=((4, -1.5), (9, 100.0)),
    seed=2**63 - 1,
    stop_ids=frozenset({0, 17}),
    logprobs=5,
)
SHAPE = GrammarShape("address", "response_format", GrammarSpec(GrammarKind.REGEX, "a+"))
CALL = GenerationCall(
    (Prompt((1,), PARAMS), Prompt((5, 6, 7), PARAMS)),
    n=3,
    shape=SHAPE,
    priority=2,
    tenant="blue",
    salt="blue\0mine",
)

ABSENT_SECONDS = 40


def continued(**changes: object) -> ContinuationBody:
    sent = messages.continuation(CALL, 1, {0: [8, 9], 2: []}, "weights-float32", 12.5)
    return read(ContinuationBody, json.dumps(sent | changes).encode())


def test_a_continuation_says_all_that_determines_the_next_token() -> None:
    body = continued()
    assert body.unknown() == []
    assert (body.prompt, body.choices, body.seed) == ([5, 6, 7], 3, PARAMS.seed)
    assert body.temperature == PARAMS.temperature
    assert body.logit_bias == dict(PARAMS.logit_bias)
    assert (body.ignore_eos, body.stop_token_ids) == (True, [0, 17])
    assert body.grammar is not None
    assert (body.grammar.kind, body.grammar.text) == (GrammarKind.REGEX, "a+")
    assert (body.tenant, body.cache_salt, body.priority) == ("blue", "mine", 2)
    assert body.requested_seconds == 12.5
    assert body.resumptions(vocabulary=10) == (Resumption(0, (8, 9)), Resumption(2, ()))


@pytest.mark.parametrize(
    "resumed",
    [
        [{"choice": 3, "tokens": []}],
        [{"choice": 0, "tokens": []}, {"choice": 0, "tokens": [1]}],
        [{"choice": 0, "tokens": [10]}],
        [{"choice": 0, "tokens": [1] * 40}],
    ],
)
def test_choices_that_cannot_continue_are_rejected_by_name(resumed: object) -> None:
    with pytest.raises(BadInput, match="resumed"):
        continued(resumed=resumed).resumptions(vocabulary=10)


@pytest.mark.parametrize(
    "changes",
    [
        {"resumed": []},
        {"resumed": [{"choice": -1, "tokens": []}]},
        {"resumed": [{"choice": 0, "tokens": [-1]}]},
        {"seed": None},
        {"temperature": -1.0},
        {"prompt": []},
        {"identity": None},
        {"grammar": {"kind": "Sentence", "text": ""}},
    ],
)
def test_a_continuation_has_the_bounds_of_any_request(changes: dict[str, object]) -> None:
    with pytest.raises(BadInput, match=next(iter(changes))):
        continued(**changes)


def test_events_cross_with_the_bits_of_their_log_probabilities() -> None:
    sent: list[messages.WireEvent] = [
        messages.Tokens(1, (4,), (Logprob(-0.1 - 0.2, ((4, -0.3), (5, float("-inf")))),)),
        messages.Finished(1, FinishReason.STOP, 17),
        messages.Overdue(),
        messages.Unfinished("draining"),
    ]
    frame = messages.encode_frame(sent)
    length = int.from_bytes(frame[: messages.LENGTH_BYTES])
    assert length == len(frame) - messages.LENGTH_BYTES
    assert messages.decode_events(frame[messages.LENGTH_BYTES :]) == sent


def test_a_frame_of_anything_else_is_an_error() -> None:
    for payload in (b"", b"\xc1", msgspec.msgpack.encode([["unknown", 1]])):
        with pytest.raises(msgspec.DecodeError):
            messages.decode_events(payload)


def test_the_next_attempt_continues_after_the_tokens_of_the_last() -> None:
    progress = Progress({0: [8, 9], 2: []}, ABSENT_SECONDS)
    assert progress.take(messages.Tokens(0, (3,), ()))
    assert progress.take(messages.Tokens(2, (4, 5), ()))
    assert progress.take(messages.Finished(2, FinishReason.LENGTH, None))
    assert progress.outputs == {0: [8, 9, 3]}
    assert not progress.take(messages.Tokens(2, (6,), ())), "it has finished"
    progress.finish(0)
    assert progress.complete


def test_attempts_without_a_token_are_bounded_and_a_token_allows_more() -> None:
    progress = Progress({0: []}, ABSENT_SECONDS)
    pauses = [progress.pause_after_failure() for _ in range(MAX_FRUITLESS)]
    assert pauses[-1] is None
    known = [pause for pause in pauses if pause is not None]
    assert known == sorted(known)
    assert 10.0 < sum(known) < 30.0
    progress.take(messages.Tokens(0, (1,), ()))
    assert progress.pause_after_failure() == known[0]


def test_attempts_that_no_pod_accepts_are_bounded_by_time_only() -> None:
    progress = Progress({0: []}, ABSENT_SECONDS)
    pauses = [progress.pause_without_peer(float(now)) for now in range(ABSENT_SECONDS + 1)]
    assert pauses[-1] is None
    assert None not in pauses[:-1]
    assert max(pause for pause in pauses if pause is not None) == MAX_PAUSE_SECONDS
    progress.pause_after_failure()
    assert progress.pause_without_peer(1e6) is not None, "a pod was there meanwhile"
