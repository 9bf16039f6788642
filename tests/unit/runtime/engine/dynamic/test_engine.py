import pytest
from hypothesis import given
from hypothesis import strategies as st

from penstock_api.pod_contract import Discipline
from penstock_runtime.engine.dynamic.batch_former import Batch, NothingWaits, WaitUntil
from penstock_runtime.engine.dynamic.engine import BatchEngine
from penstock_runtime.engine.messages import Cancel, Drain, SetLimits, Submit
from penstock_runtime.request import Cancelled, Completed, Expired, Failed
from tests.unit.runtime.engine.dynamic.builders import (
    POISON,
    Doubling,
    Ends,
    a_request,
    an_engine,
    answer,
    limits,
    step,
    submit,
)


def test_what_is_submitted_is_served_and_reported_once() -> None:
    model, ends = Doubling(fixed_seconds=1.0), Ends()
    engine = an_engine(model)
    submit(engine, "a", "b")
    step(engine, model)
    settled = ends.take(engine.settled())
    assert settled is not None
    assert [answer(end) for end in ends.of.values()] == [2.0, 2.0]
    assert settled.batch is not None
    assert (settled.batch.requests, settled.batch.rows, settled.batch.seconds) == (2, 2, 1.0)
    assert engine.settled() is None


def test_the_report_counts_waiting_and_running_while_a_batch_runs() -> None:
    model = Doubling()
    engine = an_engine(model, limits(cap=2))
    submit(engine, "a", "b", "c")
    assert isinstance(engine.plan(0.0), Batch)
    settled = engine.settled()
    assert settled is not None
    assert (settled.report.waiting, settled.report.running) == (1, 2)


def test_a_request_whose_deadline_passed_is_expired_before_work_is_spent_on_it() -> None:
    model, ends = Doubling(), Ends()
    engine = an_engine(model)
    engine.take(Submit((a_request("a", deadline=5.0), a_request("b"))), 0.0)
    model.clock.now = 5.0
    step(engine, model)
    ends.take(engine.settled())
    assert ends.of["a"] == Expired(5.0)
    assert model.batches == [1]


def test_a_request_that_arrives_after_its_deadline_is_expired_at_once() -> None:
    engine, ends = an_engine(Doubling()), Ends()
    engine.take(Submit((a_request("a", arrived=1.0, deadline=2.0),)), 3.0)
    ends.take(engine.settled())
    assert ends.of["a"] == Expired(2.0)


def test_a_cancelled_request_frees_its_place_and_is_not_computed() -> None:
    model, ends = Doubling(), Ends()
    engine = an_engine(model)
    submit(engine, "a", "b")
    engine.take(Cancel(("a", "never-there")), 0.0)
    step(engine, model)
    ends.take(engine.settled())
    assert ends.of["a"] == Cancelled()
    assert answer(ends.of["b"]) == 2.0
    assert model.batches == [1]


def test_a_request_cancelled_while_it_runs_ends_cancelled_and_its_mates_are_served() -> None:
    model, ends = Doubling(), Ends()
    engine = an_engine(model)
    submit(engine, "a", "b")
    batch = engine.plan(0.0)
    assert isinstance(batch, Batch)
    ran = engine.run(batch, model.clock, lambda: None)
    engine.take(Cancel(("a",)), 0.0)
    engine.complete(ran)
    engine.take(Cancel(("a", "b")), 0.0)  # too late: ignored
    ends.take(engine.settled())
    assert ends.of["a"] == Cancelled()
    assert answer(ends.of["b"]) == 2.0


def test_new_limits_hold_from_the_next_batch_and_the_old_one_shows_as_converging() -> None:
    model = Doubling()
    engine = an_engine(model, limits(cap=8))
    submit(engine, *"abcdef")
    batch = engine.plan(0.0)
    assert isinstance(batch, Batch)
    engine.take(SetLimits(limits(cap=2, generation=2)), 0.0)
    assert (engine.report().generation, engine.report().converging) == (2, True)
    engine.complete(engine.run(batch, model.clock, lambda: None))
    assert not engine.report().converging
    submit(engine, *"ghi")
    step(engine, model)
    assert model.batches == [6, 2]


def test_new_limits_on_an_idle_engine_are_acknowledged_without_a_batch() -> None:
    engine = an_engine(Doubling())
    engine.settled()
    engine.take(SetLimits(limits(generation=7)), 0.0)
    settled = engine.settled()
    assert settled is not None
    assert settled.report.generation == 7


def test_a_lower_cap_loses_no_request_that_is_larger_than_it() -> None:
    model, ends = Doubling(), Ends()
    engine = an_engine(model, limits(cap=64, delay_milliseconds=100))
    submit(engine, "big", rows=20)
    engine.take(SetLimits(limits(cap=8, generation=2)), 0.0)
    step(engine, model)
    ends.take(engine.settled())
    assert answer(ends.of["big"]) == 2.0
    assert model.batches == [8, 8, 4]


def test_a_live_change_of_discipline_reorders_the_queue() -> None:
    model = Doubling()
    engine = an_engine(model, limits(cap=1))
    late = a_request("late", arrived=0.0, deadline=90.0)
    urgent = a_request("urgent", arrived=1.0, deadline=10.0)
    engine.take(Submit((late, urgent)), 1.0)
    new = limits(cap=1, generation=2, discipline=Discipline.EARLIEST_DEADLINE_FIRST)
    engine.take(SetLimits(new), 1.0)
    batch = engine.plan(1.0)
    assert isinstance(batch, Batch)
    assert [request.id for request in batch.requests] == ["urgent"]


def test_busy_seconds_only_grow_by_what_the_model_took() -> None:
    model = Doubling(fixed_seconds=1.0, row_seconds=0.5)
    engine = an_engine(model)
    for name in "ab":
        submit(engine, name)
        step(engine, model)
        model.clock.advance(100.0)
    assert engine.report().busy_seconds == 3.0
    assert engine.report().curve.seconds == 3.0


def test_without_a_window_a_lone_request_runs_at_once() -> None:
    model = Doubling()
    engine = an_engine(model, limits(delay_milliseconds=0))
    submit(engine, "a")
    assert isinstance(step(engine, model), Batch)
    assert step(engine, model) == NothingWaits()


@pytest.mark.parametrize("rows", [1, 3])
@pytest.mark.parametrize("batch_seconds", [0.2, 0.5, 1.5])
def test_a_lone_client_that_asks_again_when_it_is_answered_never_waits_for_company(
    batch_seconds: float, rows: int
) -> None:
    model = Doubling(fixed_seconds=batch_seconds)
    engine = an_engine(model, limits(delay_milliseconds=50))
    for n in range(60):
        submit(engine, str(n), now=model.clock.now, rows=rows)
        assert isinstance(step(engine, model), Batch), n


def test_clients_that_all_wait_are_not_held_for_more_of_them() -> None:
    model = Doubling(fixed_seconds=0.5)
    engine = an_engine(model, limits(delay_milliseconds=50))
    for n in range(20):
        submit(engine, f"{n}-one", now=model.clock.now)
        submit(engine, f"{n}-other", now=model.clock.now)
        assert isinstance(step(engine, model), Batch), n


def test_a_batch_is_held_for_clients_that_come_more_often_than_it_would_take() -> None:
    model = Doubling(fixed_seconds=0.2)
    engine = an_engine(model, limits(delay_milliseconds=50))
    for n in range(20):
        submit(engine, *(f"{n}-{client}" for client in range(6)), now=model.clock.now)
        step(engine, model)
    submit(engine, "first", now=model.clock.now)
    assert step(engine, model) == WaitUntil(model.clock.now + 0.05)


def test_an_id_that_is_held_already_is_rejected_loudly() -> None:
    engine = an_engine(Doubling())
    submit(engine, "a")
    with pytest.raises(ValueError, match="'a' is already pending"):
        submit(engine, "a")


def known_engine(model: Doubling, cap: int = 4) -> BatchEngine:
    """Return an engine that has measured its model."""
    engine = an_engine(model, limits(cap=cap))
    for rows in (1, 4):
        submit(engine, f"measured-{rows}", rows=rows)
        step(engine, model)
    engine.settled()
    return engine


def test_a_drain_serves_what_will_finish_and_fails_the_rest_at_once() -> None:
    model, ends = Doubling(fixed_seconds=1.0, row_seconds=0.25), Ends()
    engine = known_engine(model)  # a batch of 4 takes 2 s
    now = model.clock.now
    submit(engine, *(str(n) for n in range(12)), now=now)
    engine.take(Drain(deadline=now + 4.5, retry_after_seconds=7.0), now)
    ends.take(engine.settled())
    assert ends.of == {str(n): Failed("draining", 7.0) for n in range(8, 12)}
    while isinstance(step(engine, model), Batch):
        ends.take(engine.settled())
    served = [name for name, end in ends.of.items() if isinstance(end, Completed)]
    assert served == [str(n) for n in range(8)]
    assert model.clock.now <= now + 4.5


def test_what_arrives_during_a_drain_is_served_if_it_will_finish() -> None:
    model, ends = Doubling(fixed_seconds=1.0), Ends()
    engine = known_engine(model)
    now = model.clock.now
    engine.take(Drain(deadline=now + 1.5, retry_after_seconds=7.0), now)
    submit(engine, "in-time", now=now)
    submit(engine, "too-late", now=now + 1.0)
    ends.take(engine.settled())
    assert ends.of == {"too-late": Failed("draining", 7.0)}
    step(engine, model)
    ends.take(engine.settled())
    assert isinstance(ends.of["in-time"], Completed)


def test_a_drain_does_not_hold_a_batch_for_company() -> None:
    model = Doubling()
    engine = an_engine(model, limits(delay_milliseconds=60_000))
    engine.take(Drain(deadline=100.0, retry_after_seconds=1.0), 0.0)
    submit(engine, "a")
    assert isinstance(engine.plan(0.0), Batch)


def test_at_the_drains_deadline_nothing_is_begun() -> None:
    model, ends = Doubling(), Ends()
    engine = an_engine(model)
    submit(engine, "a")
    engine.take(Drain(deadline=10.0, retry_after_seconds=1.0), 0.0)
    assert engine.plan(10.0) == NothingWaits()
    ends.take(engine.settled())
    assert ends.of["a"] == Failed("draining", 1.0)


EVENT = st.one_of(
    st.tuples(st.just("submit"), st.integers(1, 6), st.sampled_from([0.5, 3.0, None])),
    st.tuples(st.just("cancel"), st.integers(0, 30), st.none()),
    st.tuples(st.just("limits"), st.integers(1, 9), st.sampled_from(list(Discipline))),
    st.tuples(st.just("step"), st.none(), st.none()),
    st.tuples(st.just("pass time"), st.floats(0, 2), st.none()),
    st.tuples(st.just("drain"), st.floats(0, 5), st.none()),
)


@given(st.lists(EVENT, max_size=60), st.integers(1, 12))
def test_whatever_happens_every_request_ends_exactly_once(
    events: list[tuple[str, object, object]], fits: int
) -> None:
    model, ends = Doubling(fixed_seconds=0.1, row_seconds=0.05, fits=fits), Ends()
    engine, submitted, generation = an_engine(model, limits(cap=4)), 0, 1
    for kind, number, extra in events:
        now = model.clock.now
        if kind == "submit":
            assert isinstance(number, int)
            deadline = None if extra is None else now + float(str(extra))
            value = POISON if submitted % 7 == 3 else 1.0
            request = a_request(
                str(submitted), arrived=now, rows=number, deadline=deadline, value=value
            )
            engine.take(Submit((request,)), now)
            submitted += 1
        elif kind == "cancel":
            engine.take(Cancel((str(number),)), now)
        elif kind == "limits":
            generation += 1
            update = limits(cap=int(str(number)), discipline=extra, generation=generation)  # type: ignore[arg-type]
            engine.take(SetLimits(update), now)
        elif kind == "step":
            step(engine, model)
        elif kind == "pass time":
            model.clock.advance(float(str(number)))
        else:
            engine.take(Drain(now + float(str(number)), 1.0), now)
        ends.take(engine.settled())
    engine.fail_all("the engine was closed", 1.0)
    ends.take(engine.settled())
    assert sorted(ends.of, key=int) == [str(n) for n in range(submitted)]
    assert engine.report().waiting == 0
    assert all(rows <= 9 for rows in model.batches)
