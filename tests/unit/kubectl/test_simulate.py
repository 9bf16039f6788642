"""`kubectl penstock simulate` says what policies would have done, on history or on a trace."""

import json
import re
from decimal import Decimal
from math import nan
from pathlib import Path
from typing import Final

import pytest

from penstock_kubectl.__main__ import main
from penstock_operator.decide.cost.prices import money
from tests.unit.kubectl.simulated import cases, proposed, run
from tests.unit.kubectl.stage import POLICIES, PROMETHEUS, Object, Stage, policy, pool

RISING = [20.0] * 20 + [150.0] * 20
"""Rows a second, a quarter of a minute each."""


def known(rates: list[float] | None = None, **spec: object) -> Stage:
    here = {"prometheus": {"url": PROMETHEUS}}
    return Stage(pool(**spec), [policy(metrics=here)], rates or RISING)


def test_a_bound_on_replicas_is_cheaper_and_attains_less(
    tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    bound = proposed(
        tmp_path, bounds={"replicas": {"max": 2}}, metrics={"prometheus": {"url": PROMETHEUS}}
    )
    words = ["--policy", bound, "--last", "10m", "--json", str(tmp_path / "out.json")]
    assert run(known(), tmp_path, *words) == 0
    results = cases(tmp_path)
    free, bounded = results["as it is"], results["with proposed.yaml"]
    assert bounded["most_replicas"] == 2
    assert free["most_replicas"] > 2
    assert bounded["gpu_hours"] < free["gpu_hours"]
    assert bounded["attainment"] < free["attainment"]
    said = capsys.readouterr().out
    assert "with proposed.yaml" in said
    assert "Poisson at the rates of the last 0.167 h" in said
    assert "t(b) = 100 + 10 b ms" in said


def test_an_outage_of_the_history_is_interpolated_and_reported(
    tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    words = ["--last", "10m", "--json", str(tmp_path / "out.json")]
    assert run(known([40.0] * 20 + [nan] * 6 + [40.0] * 15), tmp_path, *words) == 0
    rows = json.loads((tmp_path / "out.json").read_text())["rows"]
    assert rows == pytest.approx(40 * 41 * 15, rel=0.02)
    assert "15 % of it unknown and interpolated" in capsys.readouterr().out


def test_the_quiet_end_of_a_history_is_part_of_the_run_and_its_cost(tmp_path: Path) -> None:
    stage = known([40.0] * 10 + [0.0] * 31, scaling={"mode": "Manual"})
    assert run(stage, tmp_path, "--last", "10m", "--json", str(tmp_path / "out.json")) == 0
    assert cases(tmp_path)["as it is"]["gpu_hours"] == pytest.approx(2 * 41 * 15 / 3600)


def test_without_the_permission_for_policies_a_warning_says_what_the_rows_lack(
    tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    stage = known([40.0] * 12)
    stage.failing = {POLICIES: 403}
    assert run(stage, tmp_path, "--last", "3m", "--prometheus", PROMETHEUS) == 0
    assert "warning: bounds, objectives and schedules of policies" in capsys.readouterr().err
    stage.failing = {POLICIES: 500}
    assert run(stage, tmp_path, "--last", "3m", "--prometheus", PROMETHEUS) == 1
    assert "status 500" in capsys.readouterr().err


def test_a_history_of_too_many_rows_is_rejected_before_they_are_drawn(
    tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    assert run(known([1e12] * 12), tmp_path, "--last", "3m") == 1
    assert "expected 2 to 20000000" in " ".join(capsys.readouterr().err.split())


@pytest.mark.parametrize("seed", ["-1", "0.5", "9" * 5000])
def test_a_seed_that_is_no_natural_number_is_rejected(
    tmp_path: Path, capsys: pytest.CaptureFixture[str], seed: str
) -> None:
    with pytest.raises(SystemExit):
        run(known(), tmp_path, "--seed", seed)
    assert f"invalid seed '{seed}'" in capsys.readouterr().err


def test_a_history_with_too_many_gaps_is_rejected(
    tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    assert run(known([40.0] * 20 + [nan] * 11 + [40.0] * 10), tmp_path, "--last", "10m") == 1
    error = capsys.readouterr().err.replace("\n", " ")
    assert "27 % of the demand is unknown" in error
    assert "at most 20 %" in error
    assert "--last" in error
    assert "--trace" in error


def as_it_is(folder: Path, *words: str, **spec: object) -> Object:
    """Return the figures of the pool simulated under its own policies."""
    out = str(folder / "out.json")
    assert run(known(None, **spec), folder, "--last", "10m", "--json", out, *words) == 0
    return cases(folder)["as it is"]


def test_gpu_hours_count_every_device_of_a_replica(tmp_path: Path) -> None:
    first, second = (
        as_it_is(
            tmp_path,
            scaling={"mode": "Manual"},
            accelerator={"resourceName": "nvidia.com/gpu", "count": count},
        )
        for count in (1, 2)
    )
    assert second["gpu_hours"] == 2 * first["gpu_hours"] > 0
    assert first["mean_replicas"] == second["mean_replicas"] == pytest.approx(2)


def test_a_fixed_cap_is_size_max_and_a_recommended_one_the_published(tmp_path: Path) -> None:
    size = {"max": 48}
    assert as_it_is(tmp_path, batching={"mode": "Fixed", "size": size})["mean_cap"] == 48
    assert as_it_is(tmp_path, batching={"mode": "Recommend", "size": size})["mean_cap"] == 24
    assert as_it_is(tmp_path, batching={"mode": "Auto", "size": size})["mean_cap"] not in (24, 48)


def test_replicas_are_counted_for_the_cap_that_a_batching_mode_fixes(tmp_path: Path) -> None:
    spec = {"batching": {"mode": "Recommend", "size": {"max": 32}}}
    small = pool(scaling={"mode": "Auto", "maxReplicas": 40}, **spec)
    batch = {**small["status"]["batch"], "cap": 4}
    small = {**small, "status": {**small["status"], "batch": batch}}
    stage = Stage(small, [policy(metrics={"prometheus": {"url": PROMETHEUS}})], [300.0] * 40)
    words = ["--last", "10m", "--start", "20", "--json", str(tmp_path / "out.json")]
    assert run(stage, tmp_path, *words) == 0
    result = cases(tmp_path)["as it is"]
    assert result["mean_cap"] == 4
    assert result["attainment"] > 0.99


def test_a_held_count_is_the_one_in_the_status(tmp_path: Path) -> None:
    frozen = as_it_is(tmp_path, replicas=1, scaling={"mode": "Hold", "maxReplicas": 6})
    assert frozen["most_replicas"] == 3
    assert frozen["mean_replicas"] == pytest.approx(3)


def test_a_recommended_count_is_applied_only_on_request(tmp_path: Path) -> None:
    scaling = {"mode": "Recommend", "maxReplicas": 6}
    assert as_it_is(tmp_path, scaling=scaling)["most_replicas"] == 2
    assert as_it_is(tmp_path, "--mode", "Auto", scaling=scaling)["most_replicas"] > 2


def test_a_trace_needs_no_prometheus(tmp_path: Path) -> None:
    trace, out = tmp_path / "arrivals.txt", str(tmp_path / "out.json")
    trace.write_text("".join(f"{index / 20}\n" for index in range(6000)))
    stage = Stage(pool(), [], [])
    assert run(stage, tmp_path, "--trace", str(trace), "--json", out) == 0
    assert json.loads(Path(out).read_text())["rows"] == 6000
    assert stage.queries == []


def test_a_trace_of_hourly_counts_is_refused(
    tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    trace = tmp_path / "hourly.csv"
    rows = "".join(f"{3600 * hour},2.0,100\n" for hour in range(1344, 1416))
    trace.write_text(f"time_bin,avg_turns,session_count\n{rows}")
    assert run(Stage(pool(), [], []), tmp_path, "--trace", str(trace)) == 1
    assert "hourly counts have no arrival times" in " ".join(capsys.readouterr().err.split())


ZERO: Final = {
    "mode": "Auto", "minReplicas": 0, "maxReplicas": 6, "scaleToZero": {"idleSeconds": 60},
}  # fmt: skip


def sparse(folder: Path, *words: str, **spec: object) -> Object:
    """Return the figures of a pool with ten minutes without a request after one of work, twice."""
    trace, out = folder / "sparse.txt", str(folder / "out.json")
    trace.write_text(
        "".join(f"{660 * turn + index / 5}\n" for turn in range(2) for index in range(300))
    )
    stage = Stage(pool(**spec), [], [])
    assert run(stage, folder, "--trace", str(trace), "--json", out, *words) == 0
    return cases(folder)["as it is"]


def test_a_routed_pool_goes_to_zero_and_what_comes_is_held(
    tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    routed = {"mode": "Gateway"}
    at_zero = sparse(tmp_path, "--savings", scaling=ZERO, routing=routed)
    shown = capsys.readouterr().out
    assert "came at zero replicas and waited for a start" in shown
    assert "as by the gateway" in shown
    assert at_zero["mean_replicas"] < 0.7
    for others in (
        {"scaling": {**ZERO, "minReplicas": 1}, "routing": routed},
        {"scaling": ZERO},
        {"scaling": {**ZERO, "mode": "Recommend"}, "routing": routed, "replicas": 1},
    ):
        assert sparse(tmp_path, **others)["mean_replicas"] >= 1
        assert "zero replicas" not in capsys.readouterr().out


def test_a_schedule_raises_the_floor_in_its_hours(tmp_path: Path) -> None:
    always = {"name": "day", "cron": "* * * * *", "durationMinutes": 60, "minReplicas": 4}
    file = proposed(tmp_path, schedules=[always], metrics={"prometheus": {"url": PROMETHEUS}})
    words = ["--policy", file, "--last", "10m", "--json", str(tmp_path / "out.json")]
    assert run(known([10.0] * 40), tmp_path, *words) == 0
    results = cases(tmp_path)
    assert results["as it is"]["most_replicas"] <= 2
    assert results["with proposed.yaml"]["most_replicas"] == 4


@pytest.mark.parametrize("ending", ["png", "html"])
def test_the_plot_is_a_picture_or_a_page(tmp_path: Path, ending: str) -> None:
    plot = tmp_path / f"plot.{ending}"
    assert run(known([40.0] * 12), tmp_path, "--last", "3m", "--plot", str(plot)) == 0
    content = plot.read_bytes()
    if ending == "png":
        assert content.startswith(b"\x89PNG")
    else:
        assert b"<svg" in content
        assert b"as it is" in content
        assert b"<script" not in content


@pytest.mark.parametrize(
    ("words", "said"),
    [
        (["--plot", "plot.gif"], "expected a name that ends in .png, .svg, .pdf or .html"),
        (["--policy", "nowhere.yaml"], "nowhere.yaml"),
        (["--trace", "nowhere.txt"], "nowhere.txt"),
    ],
)
def test_what_does_not_fit_is_one_line_with_a_remedy(
    tmp_path: Path, capsys: pytest.CaptureFixture[str], words: list[str], said: str
) -> None:
    assert run(known([40.0] * 12), tmp_path, "--last", "3m", *words) == 1
    shown, error = capsys.readouterr()
    assert said in error.replace("\n", "")
    assert "Traceback" not in error
    assert not shown, "nothing runs before"


def test_a_file_without_a_policy_is_rejected_with_its_name_and_field(
    tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    wrong = proposed(tmp_path, bounds={"replicas": {"max": 0}})
    assert run(known(), tmp_path, "--policy", wrong, "--last", "10m") == 1
    assert "bounds.replicas.max" in capsys.readouterr().err.replace("\n", "")


def test_without_history_and_trace_it_says_what_to_give(
    tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    assert run(Stage(pool(), [], []), tmp_path) == 1
    error = capsys.readouterr().err.replace("\n", " ")
    assert "--prometheus URL" in error
    assert "--trace FILE" in error


def test_an_unknown_curve_must_be_given_by_option(
    tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    blind = {**pool(), "status": {}}
    where = {"prometheus": {"url": PROMETHEUS}}
    stage = Stage(blind, [policy(metrics=where)], RISING)
    assert run(stage, tmp_path, "--last", "10m") == 1
    assert "--curve A,C" in capsys.readouterr().err


def test_a_bar_shows_the_progress_of_each_run_and_leaves_nothing_behind(
    tmp_path: Path, capsys: pytest.CaptureFixture[str], monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("FORCE_COLOR", "1")  # as on a terminal
    monkeypatch.setenv("TTY_INTERACTIVE", "1")
    assert run(known(), tmp_path, "--last", "10m") == 0
    printed = capsys.readouterr().out
    bar, _, page = printed.rpartition("\x1b[2K")
    shown = [
        int(percent)
        for percent in re.findall(r"(\d+) %", re.sub(r"\x1b\[[0-9;?]*[a-zA-Z]", "", bar))
    ]
    assert shown
    assert shown == sorted(shown)
    assert shown[-1] == 100
    assert "team-a/chat" in page


def test_the_cost_is_replica_hours_at_the_price_and_a_share_of_all_rows(
    tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    two = {"resourceName": "nvidia.com/gpu", "count": 2}
    result = as_it_is(tmp_path, "--price", "2.50", accelerator=two)
    replica_hours = result["gpu_hours"] / 2
    assert result["cost"] == pytest.approx(2.5 * replica_hours)
    rows = json.loads((tmp_path / "out.json").read_text())["rows"]
    assert result["cost_per_thousand_rows"] == pytest.approx(1000 * result["cost"] / rows)
    assert "; 2.5 an hour of a replica" in " ".join(capsys.readouterr().out.split())


def test_the_price_is_that_of_the_status_and_without_one_there_is_no_cost(tmp_path: Path) -> None:
    assert "cost" not in as_it_is(tmp_path, scaling={"mode": "Manual"})
    priced = pool(scaling={"mode": "Manual"})
    cost = {"currency": "EUR", "perReplicaHour": "2.66", "message": "3 pods at 2.66 EUR"}
    priced = {**priced, "status": {**priced["status"], "cost": cost}}
    stage = Stage(priced, [policy(metrics={"prometheus": {"url": PROMETHEUS}})], RISING)
    out = str(tmp_path / "out.json")
    assert run(stage, tmp_path, "--last", "10m", "--json", out) == 0
    result = cases(tmp_path)["as it is"]
    assert result["currency"] == "EUR"
    assert result["cost"] == pytest.approx(2.66 * result["gpu_hours"])


def test_savings_compare_the_law_with_the_best_fixed_count_and_an_hpa(
    tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    words = ["--last", "10m", "--savings", "--price", "2.50", "--json", str(tmp_path / "out.json")]
    assert run(known(), tmp_path, *words) == 0
    results = cases(tmp_path)
    own, hpa = results["as it is"], results["hpa-70"]
    (fixed,) = (result for name, result in results.items() if name.startswith("fixed-"))
    assert fixed["most_replicas"] == int(fixed["law"].removeprefix("fixed-"))
    assert hpa["gpu_hours"] > 0
    shares = {
        saving["against"]: saving["share"]
        for saving in json.loads((tmp_path / "out.json").read_text())["savings"]
    }
    for other in (fixed, hpa):
        both = own["attainment"] >= own["target"] <= other["attainment"]
        expected = pytest.approx(1 - own["cost"] / other["cost"]) if both else None
        assert shares[other["law"]] == expected
    said = capsys.readouterr().out
    assert f"as it is costs {money(Decimal(own['cost']))}, hpa-70 costs".split(",")[0] in said
    assert said.count("as it is costs") == 2


def test_savings_with_batch_work_take_a_fixed_count_that_answers_it_in_time(tmp_path: Path) -> None:
    words = ["--last", "10m", "--savings", "--batch", "40000,10m"]
    two = {"resourceName": "nvidia.com/gpu", "count": 2}
    stage = known([20.0] * 40, accelerator=two)
    assert run(stage, tmp_path, *words, "--json", str(tmp_path / "out.json")) == 0
    results = cases(tmp_path)
    (fixed,) = (result for name, result in results.items() if name.startswith("fixed-"))
    assert fixed["most_replicas"] > 1
    work = fixed["batch_work"]
    assert work["in_time"] == 1
    assert work["gpu_hours"] == pytest.approx(work["share"] * fixed["gpu_hours"])


def test_savings_of_a_count_that_no_law_sets_are_refused(
    tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    assert run(known(scaling={"mode": "Manual"}), tmp_path, "--last", "10m", "--savings") == 1
    error = " ".join(capsys.readouterr().err.split())
    assert "scaling.mode Manual fixes the replica count" in error
    assert "--mode Auto" in error


@pytest.mark.parametrize("amount", ["-1", "free", "nan", "inf"])
def test_what_is_not_a_price_is_rejected(
    tmp_path: Path, capsys: pytest.CaptureFixture[str], amount: str
) -> None:
    with pytest.raises(SystemExit):
        main(["simulate", "chat", "--price", amount])
    assert f"invalid price '{amount}'" in capsys.readouterr().err


@pytest.mark.parametrize("curve", ["nan,1", "1,inf", "1,-1", "1,0"])
def test_what_is_not_a_curve_is_rejected(capsys: pytest.CaptureFixture[str], curve: str) -> None:
    with pytest.raises(SystemExit):
        main(["simulate", "chat", "--curve", curve])
    assert f"'{curve}': expected finite numbers" in capsys.readouterr().err


def test_batch_work_is_served_in_the_places_that_demand_leaves(
    tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    words = ["--last", "10m", "--price", "2", "--json", str(tmp_path / "out.json")]
    assert run(known(), tmp_path, "--batch", "4000,10m", *words) == 0
    work = cases(tmp_path)["as it is"]["batch_work"]
    assert (work["answered"], work["in_time"]) == (4000, 1)
    said = capsys.readouterr().out
    assert "as it is: 1 of 1 batches in time, 4000 of 4000 lines; " in said
    with pytest.raises(SystemExit):
        run(known(), tmp_path, "--batch", "many,6h")
    assert "expected lines and the time to their deadline" in capsys.readouterr().err
