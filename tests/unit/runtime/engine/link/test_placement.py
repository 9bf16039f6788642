"""Placement of the engine: a thread next to the loop only without a spare core for a process; and overlapping steps."""

import pytest

from penstock_runtime.engine.placement import (
    EnginePlacement,
    MachineProfile,
    Placement,
    seat,
    step_depth,
)

NOWHERE = frozenset[int]()


def machine(
    allowed: int = 8, *, online: int = 8, quota: float | None = None, cuda: bool = False
) -> MachineProfile:
    return MachineProfile(frozenset(range(allowed)), online, quota, cuda)


def test_one_core_keeps_the_engine_in_a_thread() -> None:
    assert seat(machine(1)) == EnginePlacement(Placement.THREAD, 1, NOWHERE, NOWHERE)
    assert seat(machine(quota=1.9)).placement is Placement.THREAD
    assert seat(machine(quota=0.5)) == EnginePlacement(Placement.THREAD, 1, NOWHERE, NOWHERE)


def test_two_cores_give_the_engine_a_process_and_leave_one_core_to_http() -> None:
    assert seat(machine(quota=2.0)) == EnginePlacement(Placement.PROCESS, 1, NOWHERE, NOWHERE)
    assert seat(machine(quota=6.5)).threads == 5


def test_cuda_has_a_process_whatever_the_cores() -> None:
    assert seat(machine(1, cuda=True)).placement is Placement.PROCESS


def test_cpus_are_pinned_only_where_the_container_has_its_own() -> None:
    own = seat(machine(4, online=64, quota=4.0))
    assert own == EnginePlacement(Placement.PROCESS, 3, frozenset({1, 2, 3}), frozenset({0}))
    assert seat(machine(64, online=64, quota=4.0)).engine_cpus == NOWHERE
    assert seat(machine(16, online=64, quota=4.0)).engine_cpus == NOWHERE


def test_a_wish_is_obeyed() -> None:
    assert seat(machine(), Placement.THREAD) == EnginePlacement(
        Placement.THREAD, 8, NOWHERE, NOWHERE
    )
    assert seat(machine(1), Placement.PROCESS).placement is Placement.PROCESS


def test_steps_overlap_with_planning_where_a_core_or_a_device_hides_it() -> None:
    assert step_depth(machine(2)) == 1
    assert step_depth(machine(quota=2.0)) == 1
    assert step_depth(machine(1)) == 0
    assert step_depth(machine(quota=1.9)) == 0
    assert step_depth(machine(1, cuda=True)) == 1


@pytest.mark.parametrize("wish", [0, 1])
def test_a_configured_depth_is_used_on_any_machine(wish: int) -> None:
    assert step_depth(machine(1), wish) == wish
    assert step_depth(machine(8, cuda=True), wish) == wish
