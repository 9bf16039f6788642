"""The stored record of a rollback, which outlives the operator."""

import json

import pytest

from penstock_operator.decide.rollback.record import Record, Settings, read_record
from penstock_operator.decide.spec import live_fields
from tests.unit.operator.decide.world import known


def test_a_record_round_trips_through_json_and_an_unreadable_one_is_none() -> None:
    guards = ("scaling.queueDepth.targetPerReplica",)
    record = Record(Settings({"batching.size.max": 16}, guards), trial="abc")
    assert read_record(record.as_json()) == record
    assert json.loads(record.as_json())["trial"] == "abc"
    for text in (None, "", "{", "[]", '{"accepted": 3}', '{"unknown": 1}'):
        assert read_record(text) is None


@pytest.mark.parametrize(("value", "read"), [(0, True), (-1, False), ("", False), ("0", False)])
def test_a_pool_that_scales_to_zero_keeps_its_record(value: live_fields.Value, read: bool) -> None:
    record = Record(Settings({live_fields.MIN_REPLICAS: value}), rolled_back="abc")
    assert (read_record(record.as_json()) == record) is read


def test_a_record_of_the_version_before_still_loads() -> None:
    text = (
        '{"accepted":{"fields":{"batching.size.max":16},"guarded":[]},"trial":"",'
        '"before":{"good":9.0,"total":10.0,"seconds":60.0},"set_aside":"abc","why":"slow"}'
    )
    record = known(read_record(text))
    assert (record.rolled_back, known(record.before).attainment) == ("abc", 0.9)
    assert json.loads(record.as_json()) == json.loads(text)
