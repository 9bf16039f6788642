"""The bench's ablations: each names code of the law, takes it out, and puts it back."""

from importlib import import_module

import pytest

from penstock_simulator.outcome import RunSummary
from tests.bench.control import plan
from tests.bench.control.ablation import PARTS, ablated
from tests.bench.control.ablation_table import ablations
from tests.bench.control.jobs import Job, Result
from tests.bench.control.sensitivity import law_modules


def everything() -> dict[tuple[str, str], object]:
    """Return every attribute of the law's modules and classes."""
    known = {(m.__name__, name): value for m in law_modules() for name, value in vars(m).items()}
    classes = {value for value in known.values() if isinstance(value, type)}
    return known | {
        (owner.__qualname__, name): value
        for owner in classes
        for name, value in vars(owner).items()
    }


@pytest.mark.parametrize("name", PARTS)
def test_a_part_is_taken_out_everywhere_and_put_back(name: str) -> None:
    import_module("penstock_operator.decide.scaling.capacity_at_objective.law")
    before, attribute = everything(), PARTS[name].target.rsplit(".", 1)[1]
    with ablated(name):
        during = everything()
        changed = {key for key in before if during[key] is not before[key]}
        assert changed
        assert {key[1] for key in changed} == {attribute}
        assert all(during[key] is PARTS[name].without for key in changed)
    assert everything() == before
    assert PARTS[name].lines > 0


def test_a_function_imported_by_name_is_taken_out_where_it_is_used() -> None:
    law = import_module("penstock_operator.decide.scaling.capacity_at_objective.law")
    with ablated("learned price"):
        assert law.reprice is PARTS["learned price"].without


def result(
    trace: str, part: str | None, gpu_hours: float, attainment: float, seed: int = 1
) -> Result:
    summary = RunSummary(
        "law", 100, attainment, attainment, gpu_hours, 0.1, 0.2, 0, 1.0, 2, 3.0, 4.0
    )
    return Result(Job(trace, None, plan.DEFAULT, seed, ablated=part), summary, 1.0)


def test_a_row_has_the_mean_cost_and_the_worst_seed() -> None:
    whole = [result(trace, None, 10.0, 0.995, seed) for trace in plan.AIMED for seed in (1, 2)]
    without = [result(trace, "panic", 10.5, 0.995, 1) for trace in plan.AIMED]
    worse = [result("mooncake", "panic", 10.5, 0.993, 2)]
    (row,) = ablations([*whole, *without, *worse])
    assert row.cost == pytest.approx(1.05)
    assert row.points["mooncake"] == pytest.approx(-0.2)
    assert row.points["azure_conv"] == 0.0
    assert row.verdict == "needed"


def test_a_part_without_effect_is_not_called_needed_unless_a_fault_needs_it() -> None:
    runs = [
        result("mooncake", part, 10.0, 0.995)
        for part in (None, "trend of the forecast", "fading of a curve")
    ]
    verdicts = {row.part: row.verdict for row in ablations(runs)}
    assert verdicts["trend of the forecast"] == "not shown to be needed"
    assert verdicts["fading of a curve"].startswith("kept")
