"""The wire between operator and runtime: what goes out comes back, and what is unknown is rejected."""

import json

import pytest
from hypothesis import given
from hypothesis import strategies as st
from pydantic import ValidationError

from penstock_api.pod_contract import (
    MAX_BATCH_SIZE,
    MAX_QUEUE_DELAY_MILLISECONDS,
    MAX_QUEUE_DEPTH,
    CurveSums,
    Discipline,
    Envelope,
    Limits,
    LimitsUpdate,
    Lowering,
    PodLoad,
    Preemption,
    Range,
    State,
)

UPDATE = {
    "generation": 7,
    "maxBatchSize": 16,
    "maxQueueDepth": 2048,
    "maxQueueDelayMilliseconds": 5,
    "discipline": "Priority",
    "maxBatchedTokens": 512,
    "preemption": "LowerPriority",
    "drain": "Evict",
}


def read(body: object) -> LimitsUpdate:
    return LimitsUpdate.model_validate_json(json.dumps(body))


@given(
    st.integers(0, 2**53 - 1),
    st.integers(1, MAX_BATCH_SIZE),
    st.integers(1, MAX_QUEUE_DEPTH),
    st.integers(0, MAX_QUEUE_DELAY_MILLISECONDS),
    st.sampled_from(Discipline),
)
def test_every_update_survives_the_wire(
    generation: int, size: int, depth: int, delay: int, discipline: Discipline
) -> None:
    update = LimitsUpdate(
        generation=generation,
        max_batch_size=size,
        max_queue_depth=depth,
        max_queue_delay_milliseconds=delay,
        discipline=discipline,
    )
    assert LimitsUpdate.model_validate_json(update.model_dump_json(by_alias=True)) == update


def test_the_wire_is_camel_case() -> None:
    update = read(UPDATE)
    assert json.loads(update.model_dump_json(by_alias=True)) == UPDATE


def test_limits_are_an_update_without_its_generation() -> None:
    limits = read(UPDATE).limits()
    assert type(limits) is Limits
    assert limits.model_dump(by_alias=True) == {
        k: v for k, v in UPDATE.items() if k != "generation"
    }


@pytest.mark.parametrize(
    ("field", "value"),
    [
        ("generation", -1),
        ("generation", 2**53),
        ("maxBatchSize", 0),
        ("maxBatchSize", MAX_BATCH_SIZE + 1),
        ("maxQueueDepth", 0),
        ("maxQueueDelayMilliseconds", -1),
        ("discipline", "Random"),
        ("maxBatchTokens", 4),
        ("generation", "7"),
        ("maxBatchSize", True),
        ("maxBatchSize", "16"),
        ("maxBatchSize", 16.0),
        ("maxQueueDelayMilliseconds", False),
        ("maxBatchedTokens", "512"),
        ("drain", True),
    ],
)
def test_a_value_out_of_range_or_unknown_is_rejected_by_name(field: str, value: object) -> None:
    with pytest.raises(ValidationError, match=field):
        read({**UPDATE, field: value})


def test_a_state_survives_the_wire() -> None:
    update = read(UPDATE)
    state = State(
        generation=update.generation,
        limits=update.limits(),
        envelope=Envelope(
            max_batch_size=Range(min=1, max=64),
            max_queue_depth=Range(min=1, max=10),
            max_queue_delay_milliseconds=Range(min=0, max=10),
        ),
        effective_max=48,
        converging=False,
        load=PodLoad(waiting=3, running=2),
        curve=CurveSums(epoch=1, batches=2.0, seconds=0.25),
        model="sample",
        backend="emulated-accelerator",
    )
    wire = state.model_dump_json(by_alias=True)
    assert State.model_validate_json(wire) == state
    assert json.loads(wire)["effectiveMax"] == 48


def test_a_step_that_is_too_small_for_the_cap_names_the_field() -> None:
    with pytest.raises(ValidationError, match="at least maxBatchSize 16") as caught:
        read(UPDATE | {"maxBatchedTokens": 15})
    assert caught.value.errors()[0]["loc"] == ("maxBatchedTokens",)


def test_what_only_generation_obeys_may_be_left_out() -> None:
    short = {key: UPDATE[key] for key in list(UPDATE)[:5]}
    update = read(short)
    assert (update.max_batched_tokens, update.preemption, update.drain) == (
        None,
        Preemption.NEVER,
        Lowering.FINISH,
    )


def test_a_limit_outside_a_pods_envelope_is_named_with_its_bounds() -> None:
    envelope = Envelope(
        max_batch_size=Range(min=1, max=16),
        max_queue_depth=Range(min=1, max=2048),
        max_queue_delay_milliseconds=Range(min=0, max=10),
        max_batched_tokens=Range(min=1, max=512),
    )
    update = read(UPDATE)
    assert envelope.outside(update) is None
    assert envelope.outside(update.model_copy(update={"max_batched_tokens": None})) is None
    outside = envelope.outside(update.model_copy(update={"max_batched_tokens": 513}))
    assert outside is not None
    assert outside.field == "maxBatchedTokens"
    assert str(outside) == "`maxBatchedTokens` must be from 1 to 512 in this pod, got 513"
