"""The rate of requests from the counters of a gateway's pods, on fake time."""

from penstock_operator.observe.offered import OfferedCounter
from penstock_operator.observed import OfferedDemand

CREATED = {"a": -1000.0, "b": -1000.0, "c": 12.0}
"""Times at which the gateway's pods were created; the operator reads them from 0 on."""


def test_a_rate_needs_three_reads() -> None:
    counter = OfferedCounter()
    for second in (0, 5):
        counter.record({"a": 10 * second}, CREATED, float(second))
        assert counter.rate() is None
    counter.record({"a": 100}, CREATED, 10.0)
    assert counter.rate() == OfferedDemand(10.0, 10.0, 10.0)


def test_a_rate_covers_15_and_30_seconds_and_the_newest_two_reads() -> None:
    counter = OfferedCounter()
    for second, count in ((0, 0), (5, 500), (20, 500), (25, 500), (30, 500), (35, 600)):
        counter.record({"a": count}, CREATED, float(second))
    assert counter.rate() == OfferedDemand(100 / 15, 20.0, 100 / 30)


def test_the_pods_of_a_gateway_add_up_and_one_that_leaves_or_restarts_takes_nothing_away() -> None:
    counter = OfferedCounter()
    counter.record({"a": 1000, "b": 1000}, CREATED, 0.0)
    counter.record({"a": 1010, "b": 1010}, CREATED, 5.0)
    counter.record({"a": 1030}, CREATED, 10.0)  # b is gone
    counter.record({"a": 10, "c": 20}, CREATED, 15.0)  # the Envoy of a restarted, and c is new
    assert counter.rate() == OfferedDemand(70 / 15, 6.0, 70 / 15)


def test_what_a_pod_counted_before_the_first_read_or_while_it_was_not_ready_is_no_demand() -> None:
    counter = OfferedCounter()
    counter.record({"a": 100}, CREATED, 0.0)
    counter.record({"a": 110}, CREATED, 5.0)
    counter.record({"a": 120, "b": 900_000}, CREATED, 10.0)
    assert counter.rate() == OfferedDemand(2.0, 2.0, 2.0)
    counter.record({"a": 130, "b": 900_010}, CREATED, 15.0)
    counter.record({"a": 140, "c": 10}, CREATED, 20.0)
    counter.record({"a": 150, "b": 990_000}, CREATED, 25.0)
    counter.record({"a": 160, "b": 990_000, "c": 990_000}, CREATED, 30.0)
    assert counter.rate() == OfferedDemand(40 / 15, 2.0, 80 / 30)


def test_a_read_that_was_missed_delays_its_requests_and_loses_none() -> None:
    counter = OfferedCounter()
    for second in (0.0, 5.0, 10.0, 40.0):
        counter.record({"a": int(10 * second)}, CREATED, second)
    assert counter.rate() == OfferedDemand(10.0, 10.0, 10.0)


def test_reads_close_to_each_other_make_no_rate_of_their_own() -> None:
    counter = OfferedCounter()
    for second, count in ((0.0, 0), (5.0, 50), (5.1, 90), (10.0, 100)):
        counter.record({"a": count}, CREATED, second)
    assert counter.rate() == OfferedDemand(10.0, 10.0, 10.0)
