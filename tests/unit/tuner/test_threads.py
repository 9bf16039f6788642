"""The numbers of threads that the tuner accepts are those that an engine of the pod uses."""

from itertools import product
from pathlib import Path

import pytest

from penstock_api import names
from penstock_runtime.engine.placement import MachineProfile, Placement, part_of, seat
from penstock_tuner.errors import WrongOption
from penstock_tuner.options import check_threads, parser
from penstock_tuner.pod import engine_threads, usable_cpus


def test_the_cpus_of_a_pod_are_those_of_its_limit(tmp_path: Path) -> None:
    cpus = usable_cpus(tmp_path / "absent")
    for text, limit in (("max 100000", cpus), ("150000 100000", 1), ("50000 100000", 1)):
        (tmp_path / "cpu.max").write_text(text)
        assert usable_cpus(tmp_path / "cpu.max") == limit


@pytest.mark.parametrize("wish", [None, *Placement])
def test_an_engine_uses_the_threads_that_the_runtime_gives_it(wish: Placement | None) -> None:
    environ = {"PENSTOCK_PLACEMENT": wish or "Auto"}
    for cpus in range(1, 9):
        machine = MachineProfile(frozenset(range(cpus)), 64, float(cpus), cuda=False)
        assert engine_threads(environ, cpus) == seat(machine, wish).threads


@pytest.mark.parametrize(
    "name", [names.ENV_DATA_PARALLEL, names.ENV_TENSOR_PARALLEL, names.ENV_PIPELINE_PARALLEL]
)
def test_engines_of_a_pod_divide_its_threads(name: str) -> None:
    for cpus, engines in product(range(1, 9), (1, 2, 3)):
        machine = MachineProfile(frozenset(range(cpus)), 64, float(cpus), cuda=False)
        taken = part_of(seat(machine), 0, engines)
        assert engine_threads({name: str(engines)}, cpus) == taken.threads


def test_threads_that_no_engine_of_the_pod_uses_are_rejected() -> None:
    three = parser().parse_args(["--threads=1,3"])
    check_threads(three, engine_threads({}, 4))
    check_threads(three, engine_threads({"PENSTOCK_PLACEMENT": "Thread"}, 3))
    with pytest.raises(WrongOption, match=r"--threads: 3 is above .*: use 1 to 2$"):
        check_threads(three, engine_threads({}, 3))
    with pytest.raises(WrongOption, match=r"--threads: 3 is above .*: use 1$"):
        check_threads(three, engine_threads({}, 2))
