from penstock_runtime.engine.dynamic.service_curve import BatchServiceCurve
from penstock_runtime.engine.link.process.deadlines import Deadlines
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
    watched = Deadlines()
    watched.add(a_request(name, deadline=at) for name, at in deadlines.items())
    return watched


def test_who_waits_expires_when_the_deadline_passes_the_earliest_first() -> None:
    deadlines = waiting(late=9.0, b=2.0, a=1.0)
    deadlines.add([a_request("never")])
    assert deadlines.next() == 1.0
    assert deadlines.expire(0.5) == ()
    assert deadlines.expire(2.0) == (("a", Expired(2.0)), ("b", Expired(2.0)))
    assert deadlines.next() == 9.0


def test_who_began_ended_or_was_cancelled_does_not_expire() -> None:
    deadlines = waiting(began=1.0, ended=1.0, cancelled=1.0)
    deadlines.filter(told(("ended", Cancelled()), began=("began",)))
    deadlines.remove(("cancelled", "never-there"))
    assert deadlines.expire(5.0) == ()
    assert deadlines.next() is None


def test_the_engines_later_report_of_an_ended_request_is_dropped_once() -> None:
    deadlines, other = waiting(a=1.0), ("b", Cancelled())
    deadlines.expire(1.0)
    assert deadlines.filter(told(other)).ends == (other,)
    assert deadlines.filter(told(("a", Cancelled()), other)).ends == (other,)
    assert deadlines.filter(told(("a", Cancelled()))).ends == (("a", Cancelled()),), (
        "another of its name"
    )
