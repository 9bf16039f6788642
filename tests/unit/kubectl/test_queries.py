"""The plugin's PromQL, evaluated by promtool over series of a pool and of its gateway."""

import json
from pathlib import Path

from penstock_kubectl.history import TimeRange, queries
from penstock_kubectl.tune import load_shape
from tests.unit.alerts.test_rules import promtool

POOL = '{namespace="a", pool="chat"}'


def series(text: str, values: str) -> dict[str, str]:
    return {"series": text, "values": values}


def expect(folder: Path, given: list[dict[str, str]], wanted: list[tuple[str, str, float]]) -> None:
    """Check that each query has this value at its time, over series with a value each 15 s."""
    results = [
        {"expr": expr, "eval_time": time, "exp_samples": [{"labels": "{}", "value": value}]}
        for expr, time, value in wanted
    ]
    file = folder / "story.yaml"
    story = {"interval": "15s", "input_series": given, "promql_expr_test": results}
    file.write_text(json.dumps({"evaluation_interval": "15s", "tests": [story]}))
    done = promtool("test", "rules", file)
    assert done.returncode == 0, done.stdout + done.stderr


def test_demand_at_zero_replicas_is_what_the_gateway_counts(tmp_path: Path) -> None:
    demand = queries("a", ["chat"], TimeRange(0, 3600, 15))["demand"]
    given = [
        series(f"penstock_gateway_requests_total{POOL}", "0x40 15+15x40"),
        series(f"penstock_requests_received_total{POOL}", "_x60 0x4 15+15x20"),
        series(f"penstock_rows_received_total{POOL}", "_x60 0x4 45+45x20"),
    ]
    wanted = {"9m": 0, "14m": 1, "16m": 1, "20m": 3}  # idle, held, starting, served
    expect(tmp_path, given, [(demand, when, value) for when, value in wanted.items()])


def test_held_requests_are_demand_when_they_arrive_and_not_when_they_are_released(
    tmp_path: Path,
) -> None:
    demand = queries("a", ["chat"], TimeRange(0, 1200, 15))["demand"]
    given = [  # a request a second from the tenth minute on; the pod receives those held at once
        series(f"penstock_gateway_requests_total{POOL}", "0x40 15+15x40"),
        series(f"penstock_requests_received_total{POOL}", "_x57 0 270+15x22"),
        series(f"penstock_rows_received_total{POOL}", "_x57 0 270+15x22"),
    ]
    wanted = {"14m": 1, "14m30s": 1, "15m": 1, "18m": 1}
    expect(tmp_path, given, [(demand, when, value) for when, value in wanted.items()])


def test_each_prompt_of_a_body_is_demand_behind_a_gateway(tmp_path: Path) -> None:
    demand = queries("a", ["chat"], TimeRange(0, 3600, 15))["demand"]
    given = [  # a body a second, with four prompts
        series(f"penstock_gateway_requests_total{POOL}", "0+15x40"),
        series(f"penstock_requests_received_total{POOL}", "0+60x40"),
        series(f"penstock_rows_received_total{POOL}", "0+60x40"),
    ]
    expect(tmp_path, given, [(demand, "9m", 4)])


def test_demand_without_a_gateway_is_what_the_pods_count(tmp_path: Path) -> None:
    demand = queries("a", ["chat"], TimeRange(0, 3600, 15))["demand"]
    given = [
        series(f"penstock_requests_received_total{POOL}", "0+15x40"),
        series(f"penstock_rows_received_total{POOL}", "0+30x40"),
    ]
    expect(tmp_path, given, [(demand, "9m", 2)])


def test_the_load_is_that_of_completed_requests_without_batch_work(tmp_path: Path) -> None:
    """Of 10 requests a second 4 are batch work and 2 are refused; the other 4 have 3 rows each."""
    served = 'penstock_served_total{namespace="a", pool="chat", work="%s"}'
    given = [
        series(f"penstock_pod_info{POOL}", "1x280"),
        series(f"penstock_requests_received_total{POOL}", "0+150x280"),
        series(f"penstock_requests_total{POOL}", "0+120x280"),
        series(f"penstock_rows_received_total{POOL}", "0+240x280"),
        series(f"penstock_request_duration_seconds_count{POOL}", "0+60x280"),
        series(f"penstock_prompt_tokens_received_total{POOL}", "0+12000x280"),
        series(served % "interactive", "0+180x280"),
        series(served % "batch", "0+6000x280"),
    ]
    rows, text = load_shape.queries("a", "chat", 3600), load_shape.text_queries("a", "chat", 3600)
    wanted = [(rows["rows"], 3), (rows["rate"], 4), (text["outputs"], 3), (text["prompts"], 100)]
    expect(tmp_path, given, [(expr, "65m", value) for expr, value in wanted])
