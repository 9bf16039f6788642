"""`kubectl penstock simulate` of a pool with variants: its own history, curves and prices, a fixed mix and an HPA."""

import json
from collections.abc import Mapping
from pathlib import Path
from typing import Any

import pytest

from tests.unit.kubectl.simulated import cases, proposed, run
from tests.unit.kubectl.stage import HEAD, PROMETHEUS, STATUS, Object, Stage, policy, pool

POOLS = "/apis/penstock.dev/v1alpha1/namespaces/team-a/inferencepools"
VARIANTS = [
    {"name": "gpu", "maxReplicas": 3},
    {"name": "cpu", "accelerator": {"count": 0}, "minReplicas": 0},
]
CURVES = {"gpu": ("60.00", "4.000"), "cpu": ("180.00", "60.000")}
PRICES = {"gpu": "6.00", "cpu": "0.20"}
COUNTS = {"gpu": 1, "cpu": 0}


def stage(
    curves: Mapping[str, tuple[str, str]] = CURVES, prices: Mapping[str, str] = PRICES, **spec: Any
) -> Stage:
    """Return a stage of a pool whose variants have these curves and prices, 10 minutes at 20 and then at 60 rows/s."""
    scaling = {"mode": "Auto", "maxReplicas": 40}
    parent = pool(**{"scaling": scaling, "variants": VARIANTS, "routing": {"mode": "Gateway"}, **spec})  # fmt: skip
    parent["status"] = {
        "observedGeneration": 3,
        "replicas": 1,
        "readyReplicas": 1,
        "desiredReplicas": 1,
        "prometheusUrl": PROMETHEUS,
        "cost": {"currency": "EUR", "perHour": "6.00", "message": "the sum of the variants"},
        "variants": [
            {"name": name, "replicas": count, "readyReplicas": count, **price(name, prices)}
            for name, count in COUNTS.items()
        ],
    }
    built = Stage(parent, [policy()], [20.0] * 20 + [60.0] * 20)
    for name in COUNTS:
        built.objects[f"{POOLS}/chat-{name}"] = child(name, curves.get(name))
    return built


def price(name: str, prices: Mapping[str, str]) -> Object:
    return {"perReplicaHour": prices[name]} if name in prices else {}


def child(name: str, curve: tuple[str, str] | None) -> Object:
    """Return the pool of a variant."""
    given = pool(scaling={"mode": "Recommend", "maxReplicas": 40})
    owner = {"apiVersion": "penstock.dev/v1alpha1", "kind": HEAD["kind"], "name": "chat", "uid": "uid-chat", "controller": True}  # fmt: skip
    given["metadata"] |= {"name": f"chat-{name}", "uid": f"uid-{name}", "ownerReferences": [owner]}
    scaling = {"startupP90Seconds": "30.0"}
    if curve is not None:
        a, c = curve
        known = {"interceptMilliseconds": a, "millisecondsPerRow": c}
        scaling |= {"curve": {**STATUS["scaling"]["curve"], **known}}  # type: ignore[dict-item]
    given["status"] = {"observedGeneration": 3, "scaling": scaling}
    return given


def simulated(folder: Path, given: Stage, *words: str) -> dict[str, Object]:
    """Return the figures of each case of a simulation of the last 10 minutes."""
    out = str(folder / "out.json")
    assert run(given, folder, "--last", "10m", "--json", out, *words) == 0
    return cases(folder)


def test_the_pools_own_history_is_served_by_its_variants_at_their_prices(
    tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    given = stage()
    own = simulated(tmp_path, given)["as it is"]
    assert any('pool=~"chat-gpu|chat-cpu"' in query for query in given.queries)
    hours = own["replica_hours"]
    assert hours["cpu"] > 0
    assert own["cost"] == pytest.approx(6.0 * hours["gpu"] + 0.2 * hours["cpu"])
    assert own["currency"] == "EUR"
    said = " ".join(capsys.readouterr().out.split())
    assert "gpu: t(b) = 60 + 4 b ms, start-up p90 30 s, 1 at the start, 6 EUR an hour" in said
    assert "cpu: t(b) = 180 + 60 b ms, start-up p90 30 s, 0 at the start, 0.2 EUR an hour" in said
    assert f"as it is: replica hours {hours['gpu']:.3f} of gpu, {hours['cpu']:.3f} of cpu" in said


def test_the_quiet_end_of_a_history_is_part_of_the_run(tmp_path: Path) -> None:
    given = stage(replicas=1, scaling={"mode": "Manual"})
    given.rates = [20.0] * 10 + [0.0] * 31
    hours = simulated(tmp_path, given)["as it is"]["replica_hours"]
    assert hours["gpu"] == pytest.approx(41 * 15 / 3600)


def test_a_policy_bounds_the_mix(tmp_path: Path) -> None:
    few = proposed(tmp_path, bounds={"replicas": {"max": 2}})
    results = simulated(tmp_path, stage(), "--policy", few)
    free, bounded = results["as it is"], results["with proposed.yaml"]
    assert (
        bounded["most_replicas"] <= 3 < free["most_replicas"]
    )  # one more while they are exchanged
    assert bounded["replica_hours"]["gpu"] > free["replica_hours"]["gpu"]


def test_a_policy_with_another_objective_measures_the_capacities_again(tmp_path: Path) -> None:
    given = stage()
    for each in given.objects[f"{POOLS}/chat"]["status"]["variants"]:
        each["rowsPerSecondPerReplica"] = {"gpu": "140.0", "cpu": "8.0"}[each["name"]]
    objective = {"metric": "RequestLatency", "milliseconds": 450}
    del given.objects[f"{POOLS}/chat"]["spec"]["objectives"]
    policies = {"items": [policy(defaults={"objectives": [{**objective, "milliseconds": 1000}]})]}
    given.objects["/apis/penstock.dev/v1alpha1/inferencepolicies"] = policies
    stricter = proposed(tmp_path, defaults={"objectives": [objective]})
    results = simulated(tmp_path, given, "--policy", stricter)
    free, strict = results["as it is"], results["with proposed.yaml"]
    assert (
        free["replica_hours"]["cpu"] > 5 * strict["replica_hours"]["cpu"]
    )  # no batch of cores fits


def test_what_no_law_moves_is_the_count_in_the_order_of_the_list(tmp_path: Path) -> None:
    manual = stage(replicas=5, scaling={"mode": "Manual"})
    own = simulated(tmp_path, manual)["as it is"]
    hours = own["replica_hours"]
    assert hours["cpu"] / hours["gpu"] == pytest.approx(2 / 3)  # gpu has at most 3
    assert own["mean_replicas"] == pytest.approx(5)
    assert simulated(tmp_path, manual, "--mode", "Auto")["as it is"]["mean_replicas"] != 5


def test_mode_hold_keeps_the_requested_counts_of_pods_that_are_not_ready_too(
    tmp_path: Path,
) -> None:
    given = stage(scaling={"mode": "Hold", "maxReplicas": 40})
    gpu, cpu = given.objects[f"{POOLS}/chat"]["status"]["variants"]
    gpu |= {"replicas": 2, "readyReplicas": 0}
    cpu |= {"replicas": 3, "readyReplicas": 1}
    own = simulated(tmp_path, given)["as it is"]
    assert own["mean_replicas"] == pytest.approx(5)
    assert own["replica_hours"]["cpu"] / own["replica_hours"]["gpu"] == pytest.approx(3 / 2)


def test_savings_compare_the_mix_with_a_fixed_one_and_an_hpa_on_one_variant(
    tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    results = simulated(tmp_path, stage(), "--savings")
    own, fixed, hpa = results.values()
    assert fixed["case"].startswith("fixed: ")
    (scaled,) = hpa["replica_hours"]
    assert hpa["case"] == f"hpa-70 on {scaled}"
    assert fixed["attainment"] >= fixed["target"]
    assert fixed["cost"] < 6 * 10 / 60 + 0.1  # at most a large replica all the time
    assert hpa["cost"] == pytest.approx(float(PRICES[scaled]) * hpa["replica_hours"][scaled])
    shares = json.loads((tmp_path / "out.json").read_text())["savings"]
    for saving, other in zip(shares, (fixed, hpa), strict=True):
        both = own["attainment"] >= own["target"] <= other["attainment"]
        assert saving["share"] == (pytest.approx(1 - own["cost"] / other["cost"]) if both else None)
    assert capsys.readouterr().out.count("as it is costs") == 2


def test_batch_work_of_the_pool_has_a_share_of_the_cost(
    tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    own = simulated(tmp_path, stage(batchWork={"maxReplicas": 4}), "--batch", "4000,10m")["as it is"]  # fmt: skip
    assert own["batch_work"]["answered"] == 4000
    assert "as it is: 1 of 1 batches in time, 4000 of 4000 lines" in capsys.readouterr().out


def test_a_variant_without_a_curve_is_left_out_until_one_is_given(
    tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    blind = stage(curves={"gpu": CURVES["gpu"]})
    assert set(simulated(tmp_path, blind)["as it is"]["replica_hours"]) == {"gpu"}
    assert "not simulated, since no curve is known: cpu" in " ".join(capsys.readouterr().out.split())  # fmt: skip
    given = simulated(tmp_path, blind, "--curve", "cpu=180,60", "--price", "cpu=0.5")["as it is"]
    hours = given["replica_hours"]
    assert given["cost"] == pytest.approx(6 * hours["gpu"] + 0.5 * hours["cpu"])
    del blind.objects[f"{POOLS}/chat-gpu"]
    assert run(blind, tmp_path, "--last", "10m") == 1
    assert "--curve NAME=A,C" in capsys.readouterr().err


def test_without_every_price_costs_are_device_hours(
    tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    own = simulated(tmp_path, stage(prices={"cpu": "0.20"}), "--savings")["as it is"]
    assert "cost" not in own
    said = capsys.readouterr().out
    assert "price unknown" in " ".join(said.split())
    assert "device hours" in said


@pytest.mark.parametrize(
    ("words", "said"),
    [
        (["--curve", "60,4"], "has the variants gpu, cpu: use --curve NAME=A,C"),
        (["--price", "tpu=4"], "has the variants gpu, cpu: use --price NAME=AMOUNT"),
    ],
)
def test_an_option_must_name_the_variant(
    tmp_path: Path, capsys: pytest.CaptureFixture[str], words: list[str], said: str
) -> None:
    assert run(stage(), tmp_path, "--last", "10m", *words) == 1
    assert said in " ".join(capsys.readouterr().err.split())


def test_a_pool_without_variants_takes_no_names(
    tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    plain = Stage(pool(), [policy(metrics={"prometheus": {"url": PROMETHEUS}})], [20.0] * 40)
    assert run(plain, tmp_path, "--last", "10m", "--curve", "gpu=60,4") == 1
    assert "pool chat has no variants" in " ".join(capsys.readouterr().err.split())


def test_text_generation_with_variants_is_refused_with_a_remedy(
    tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    claim = {"type": "PersistentVolumeClaim", "persistentVolumeClaim": {"claimName": "c", "path": "m"}}  # fmt: skip
    text = stage(model={"task": "TextGeneration", "source": claim})
    assert run(text, tmp_path, "--last", "10m") == 1
    assert "simulate the pool of one variant, chat-gpu" in " ".join(capsys.readouterr().err.split())
