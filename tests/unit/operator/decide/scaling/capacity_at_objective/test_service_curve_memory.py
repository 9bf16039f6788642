"""Service curve (docs/design/control-law.md#service-curve): warm-up is a prior, data fades, odd intervals are dropped, nothing is stretched far."""

from collections.abc import Callable

import pytest

from penstock_api.pod_contract import CurveSums
from penstock_operator.decide.scaling.capacity_at_objective.capacity.batch_curves import (
    BatchCurves,
    learn_batches,
)
from penstock_operator.decide.scaling.capacity_at_objective.capacity.model import (
    CapacityModel,
    model,
)
from penstock_operator.decide.scaling.law import LawPod
from penstock_operator.decide.scaling.signals.counters import SUMS, Point, point
from penstock_operator.observed import PodSample

WARM_UP = (1, 2, 4, 8, 16, 32)


class Pod:
    """A pod that runs what the story says: t(b) = a + c*b."""

    def __init__(
        self, a: float = 0.1, c: float = 0.01, uid: str = "pod", warm: bool = True
    ) -> None:
        self.a, self.c, self.uid, self.now = a, c, uid, 1000.0
        self.sums, self.by_size = [0.0] * 6, [0.0] * 21
        self.shape: Callable[[int], float] | None = None
        self.curves = BatchCurves()
        if warm:
            self.run(*WARM_UP)
            self.scrape()

    def run(self, *batches: int, extra: float = 0.0) -> None:
        for b in batches:
            t = (self.a + self.c * b if self.shape is None else self.shape(b)) + extra
            for i, grown in enumerate((1.0, b, t)):
                self.by_size[3 * (b - 1).bit_length() + i] += grown
            for i, grown in enumerate((1.0, b, b * b, t, b * t, t * t)):
                self.sums[i] += grown

    def scrape(self, epoch: int = 0) -> CapacityModel:
        self.now += 5
        known = dict(zip(SUMS, self.sums, strict=True))
        sums = CurveSums(epoch=epoch, by_size=tuple(self.by_size), **known)
        sample = point(PodSample(self.uid, self.now, curve=sums))
        pod = LawPod(self.uid, True, False, True, None, revision="one")
        self.curves = learn_batches(self.curves, {self.uid: window(sample)}, (pod,))
        curve = model(self.curves.of_revision("one"))
        assert curve is not None
        return curve


def window(*points: Point) -> tuple[Point, ...]:
    return points


def test_warm_up_alone_gives_the_curve() -> None:
    curve = Pod().scrape()
    assert curve.identified
    assert curve.seconds(20) == pytest.approx(0.3, rel=0.02)
    assert curve.capacity(20) == pytest.approx(20 / 0.3, rel=0.02)


def test_a_cap_that_never_moves_does_not_hide_the_slope() -> None:
    pod = Pod()
    for _ in range(200):
        pod.run(*[8] * 10)
        curve = pod.scrape()
    assert curve.seconds(24) == pytest.approx(0.34, rel=0.03)


def test_without_warm_up_one_size_gives_no_slope_and_errs_on_the_long_side() -> None:
    pod = Pod(warm=False)
    pod.run(*[8] * 50)
    curve = pod.scrape()
    assert not curve.identified
    assert curve.seconds(16) == pytest.approx(2 * 0.18), "as if all time were per row"


def test_nothing_is_planned_far_beyond_what_was_measured() -> None:
    pod = Pod(warm=False)
    pod.run(*[2, 4, 6, 8] * 20)
    assert pod.scrape().largest <= 8
    pod.run(*[16] * 20)
    assert 8 < pod.scrape().largest <= 16


def test_one_odd_interval_is_dropped_and_three_are_a_real_change() -> None:
    pod = Pod()
    for _ in range(20):
        pod.run(4, 8, 12, 16)
        before = pod.scrape()
    for interval in range(3):
        assert pod.scrape().seconds(16) == pytest.approx(before.seconds(16)), interval
        pod.run(*[4, 8, 12, 16] * 5, extra=0.2)
        curve = pod.scrape()
    assert curve.seconds(16) == pytest.approx(0.46, rel=0.02), "the old curve is forgotten at once"


def test_slow_drift_is_followed() -> None:
    pod = Pod()
    for _ in range(400):
        pod.a *= 1.001
        pod.run(*[4, 8, 12, 16] * 5)
        curve = pod.scrape()
    assert curve.seconds(16) == pytest.approx(pod.a + 0.16, rel=0.1)


def test_a_restarted_pod_begins_with_its_new_warm_up() -> None:
    pod = Pod()
    for _ in range(10):
        pod.run(4, 8, 12, 16)
        pod.scrape()
    pod.sums, pod.by_size, pod.c = [0.0] * 6, [0.0] * 21, 0.02
    pod.run(*WARM_UP)
    assert pod.scrape().seconds(16) == pytest.approx(0.42, rel=0.02)


def test_what_a_pod_taught_outlives_it_while_its_revision_lives() -> None:
    pod = Pod()
    pod.run(4, 8, 12, 16)
    pod.scrape()
    sibling = LawPod("other", True, False, True, None, revision="one")
    after = learn_batches(pod.curves, {}, (sibling,))
    curve = model(after.of_revision("one"))
    assert curve is not None
    assert curve.seconds(20) == pytest.approx(0.3, rel=0.05)
    stranger = LawPod("third", True, False, True, None, revision="two")
    assert learn_batches(after, {}, (stranger,)).of_revision("one") == ()


def test_q_is_the_noise_around_the_curve() -> None:
    pod = Pod()
    for i in range(40):
        pod.run(4, 8, 12, 16, extra=0.02 if i % 2 else -0.02)
    assert 1.1 < pod.scrape().tail_ratio < 1.4
    assert Pod().scrape().tail_ratio < 1.05


def kinked(rows: int) -> float:
    return 0.1 + 0.01 * max(rows - 16, 0)


def stairs(rows: int) -> float:
    return 0.1 + 0.08 * -(-rows // 8)


@pytest.mark.parametrize("shape", [kinked, stairs])
def test_a_device_that_no_line_describes_is_planned_as_it_is(shape: Callable[[int], float]) -> None:
    pod = Pod(warm=False)
    pod.shape = shape
    pod.run(*WARM_UP)
    for curve in (pod.scrape(), _busy(pod, range(1, 33)), _busy(pod, range(1, 17))):
        assert curve.shape is not None
        for rows in (8, 16, 32):
            assert curve.seconds(rows) == pytest.approx(shape(rows), rel=0.12), rows
        assert curve.tail_ratio < 1.35
        assert curve.most_productive(32) == (16 if shape is kinked else 32)


def test_requests_slower_than_the_warm_up_scale_the_whole_curve() -> None:
    pod = Pod(warm=False)
    pod.shape = kinked
    pod.run(*WARM_UP)
    pod.scrape()
    pod.shape = lambda rows: 1.5 * kinked(rows)
    curve = _busy(pod, range(1, 17))
    assert curve.seconds(32) == pytest.approx(0.39, rel=0.05)


def test_a_pod_without_classes_of_sizes_has_a_line() -> None:
    pod = Pod(warm=False)
    pod.shape = kinked
    pod.by_size = [0.0] * 21
    pod.run(*WARM_UP)
    pod.by_size = []
    curve = pod.scrape()
    assert curve.shape is None
    assert curve.most_productive(32) == 32


def _busy(pod: Pod, sizes: range) -> CapacityModel:
    for _ in range(20):
        pod.run(*sizes)
        curve = pod.scrape()
    return curve
