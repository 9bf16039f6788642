"""The law's view of unlike replicas, and the capacity of each variant by its own curve."""

from dataclasses import replace

import pytest
from hypothesis import given
from hypothesis import strategies as st

from penstock_operator.decide.scaling.capacity_at_objective.capacity.batch_curves import PodCurve
from penstock_operator.decide.scaling.capacity_at_objective.capacity.model import (
    CapacityModel,
    model,
)
from penstock_operator.decide.scaling.law import LawInput, LawPod
from penstock_operator.decide.scaling.signals.counters import CurveSumsTuple
from penstock_operator.decide.variants.capacity import (
    Variant,
    VariantCapacity,
    capacity_at_objective,
)
from penstock_operator.decide.variants.signals import (
    as_one_pool,
    reference_count,
    reference_variant,
    weights,
)
from penstock_operator.decide.variants.step import initial, variants_step
from penstock_operator.observed import PoolSignals, SignalSource
from tests.unit.operator.decide.scaling.properties.values import law_settings

SETTINGS = law_settings(size_max=32)


def curve(a: float, c: float) -> CapacityModel:
    n, b, bb, t, bt, tt = (0.0,) * 6
    for rows in (1, 2, 4, 8, 16, 32):
        seconds = a + c * rows
        n, b, bb = n + 1, b + rows, bb + rows * rows
        t, bt, tt = t + seconds, bt + rows * seconds, tt + seconds * seconds
    sums = CurveSumsTuple(0, n, b, bb, t, bt, tt)
    fitted = model([PodCurve("r", sums, 0.0, sums, CurveSumsTuple(), 32.0)])
    assert fitted is not None
    return fitted


def pod(uid: str, *, ready: bool = True, bound: int | None = None) -> LawPod:
    return LawPod(uid, ready, terminating=False, acknowledged=False, cap_bound=bound)


def variant(name: str, ready: int, replicas: int, least: int = 0, most: int = 10) -> Variant:
    pods = tuple(pod(f"{name}-{index}", bound=len(name)) for index in range(ready))
    return Variant(name, 1.0, least, most, replicas, pods)


KNOWN = {"big": VariantCapacity(100.0, 32, "r"), "tiny": VariantCapacity(25.0, 4, "s")}
BOTH = (variant("big", 1, 2), variant("tiny", 2, 3, least=2))
NO_SIGNALS = PoolSignals(SignalSource.NONE)


def seen() -> LawInput:
    return LawInput(SETTINGS, NO_SIGNALS, (), 0, 8)


def test_a_device_with_a_faster_curve_has_more_capacity_at_the_objective() -> None:
    fast, fast_cap = capacity_at_objective(curve(0.06, 0.004), SETTINGS)
    slow, slow_cap = capacity_at_objective(curve(0.15, 0.04), SETTINGS)
    assert (fast_cap, slow_cap) == (32, 7)
    assert fast == pytest.approx(0.85 * 32 / 0.188)
    assert slow == pytest.approx(0.85 * 7 / 0.43)


def test_a_device_of_which_no_batch_is_short_enough_has_no_capacity() -> None:
    assert capacity_at_objective(curve(0.6, 0.05), SETTINGS)[0] == 0.0


@given(st.floats(0.01, 0.4), st.floats(0.001, 0.05), st.floats(1.0, 3.0))
def test_a_slower_device_never_has_more_capacity(a: float, c: float, slower: float) -> None:
    fast, _ = capacity_at_objective(curve(a, c), SETTINGS)
    slow, _ = capacity_at_objective(curve(a * slower, c * slower), SETTINGS)
    assert slow <= fast * (1 + 1e-9)


def test_replicas_weigh_their_capacity_over_the_references() -> None:
    assert weights("big", BOTH, KNOWN) == {"big": 1.0, "tiny": 0.25}
    assert reference_count(BOTH, KNOWN, weights("big", BOTH, KNOWN)) == 2
    assert reference_count(BOTH, KNOWN, weights("tiny", BOTH, KNOWN)) == 11


def test_the_law_reads_curve_and_bounds_of_the_reference_and_weights_of_all() -> None:
    pool = as_one_pool(seen(), "big", BOTH, KNOWN, 2)
    assert [(each.reference, each.weight) for each in pool.pods] == [
        (True, 1.0), (False, 0.25), (False, 0.25),
    ]  # fmt: skip
    assert pool.memory_bound == len("big")
    assert not pool.all_acknowledged()
    assert (pool.settings.min_replicas, pool.settings.max_replicas) == (1, 13)


def test_the_reference_is_the_variant_that_serves_most() -> None:
    assert reference_variant(None, BOTH, KNOWN) == "big"
    assert reference_variant("tiny", BOTH, KNOWN) == "tiny"
    assert reference_variant("tiny", (BOTH[0], variant("tiny", 1, 3)), KNOWN) == "big"
    assert reference_variant("tiny", BOTH, {}) is None
    hopeless = KNOWN["big"]._replace(rows_per_second=0.0)
    assert reference_variant("big", BOTH[:1], {"big": hopeless}) is None


def test_without_signals_counts_stay_within_their_bounds() -> None:
    many = (variant("big", 1, 12), variant("tiny", 2, 1, least=2))
    _, decided = variants_step(initial(0.0), seen(), many, 0.0)
    assert decided.counts == {"big": 10, "tiny": 2}
    assert decided.rows_needed is None


def test_a_pool_of_no_replica_starts_one_of_each_variant() -> None:
    none = (variant("big", 0, 0), variant("tiny", 0, 0))
    _, decided = variants_step(initial(0.0), seen(), none, 0.0)
    assert decided.counts == {"big": 1, "tiny": 1}


def test_the_settings_of_the_pool_are_not_changed() -> None:
    observed = seen()
    as_one_pool(observed, None, BOTH, {}, 5)
    assert observed.settings == replace(SETTINGS)
    assert pytest.approx(1.0) == weights(None, BOTH, {})["tiny"]
