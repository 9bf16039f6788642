from penstock_runtime.engine.dynamic.service_curve import BatchServiceCurve
from penstock_runtime.engine.link.deadlines import Deadlines
from penstock_runtime.engine.messages import EngineReport, Settled
from penstock_runtime.request import Cancelled, End, Expired
from tests.unit.runtime.engine.dynamic.builders import a_request

REPORT = EngineReport(
    0,
    0,
    1,
    converging=False,
    batch_cap_bound=64,
    busy_seconds=0.0,
    curve=BatchServiceCurve().sums(),
)


def told(*ends: tuple[str, End], began: tuple[str, ...] = ()) -> Settled:
    return Settled(ends, None, REPORT, began)


def waiting(**deadlines: float) -> Deadlines:
    found = Deadlines()
    found.add(a_request(name, deadline=at) for name, at in deadlines.items())
    return found


def test_who_waits_expires_when_the_deadline_passes_the_earliest_first() -> None:
    found = waiting(late=9.0, b=2.0, a=1.0)
    found.add([a_request("never")])
    assert found.next() == 1.0
    assert found.expire(0.5) == ()
    assert found.expire(2.0) == (("a", Expired(2.0)), ("b", Expired(2.0)))
    assert found.next() == 9.0


def test_who_began_ended_or_was_cancelled_does_not_expire() -> None:
    found = waiting(began=1.0, ended=1.0, cancelled=1.0)
    found.filter(told(("ended", Cancelled()), began=("began",)))
    found.remove(("cancelled", "never-there"))
    assert found.expire(5.0) == ()
    assert found.next() is None


def test_what_the_engine_says_later_of_an_end_that_was_told_is_dropped_once() -> None:
    found, other = waiting(a=1.0), ("b", Cancelled())
    found.expire(1.0)
    assert found.filter(told(other)).ends == (other,)
    assert found.filter(told(("a", Cancelled()), other)).ends == (other,)
    assert found.filter(told(("a", Cancelled()))).ends == (("a", Cancelled()),), (
        "another of its name"
    )
