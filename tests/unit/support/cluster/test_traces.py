"""Traces of a cluster on a machine are distinguished from what belongs to the machine."""

import json
import os
import signal
import subprocess
import sys
from pathlib import Path

import pytest

from tests.support.cluster import foreign
from tests.support.cluster.components.parts import Part
from tests.support.cluster.host import processes
from tests.support.cluster.host.network import without_chains
from tests.support.cluster.progress import WaitTimedOutError, wait_until
from tests.support.cluster.prometheus.discovery import targets

RULES = """*nat
:PREROUTING ACCEPT [0:0]
:DOCKER - [0:0]
:KUBE-SERVICES - [0:0]
:CNI-0123 - [0:0]
-A PREROUTING -m comment --comment "kubernetes service portals" -j KUBE-SERVICES
-A PREROUTING -j DOCKER
-A POSTROUTING -s 10.244.0.2/32 -m comment --comment "name: \\"penstock0\\"" -j CNI-0123
-A KUBE-SERVICES -d 10.96.0.1/32 -j RETURN
COMMIT
"""


def test_the_clusters_chains_and_the_jumps_to_them_go_and_all_others_stay() -> None:
    kept = without_chains(RULES)
    assert (
        kept == "*nat\n:PREROUTING ACCEPT [0:0]\n:DOCKER - [0:0]\n-A PREROUTING -j DOCKER\nCOMMIT\n"
    )


def test_rules_without_a_trace_of_the_cluster_are_not_rewritten() -> None:
    assert (
        without_chains("*nat\n:PREROUTING ACCEPT [0:0]\n-A PREROUTING -j DOCKER\nCOMMIT\n") is None
    )


def sleeper(run: Path) -> processes.Recorded:
    return processes.start(
        Part("sleeper", (sys.executable, "-c", "import time; time.sleep(60)")), run
    )


def test_a_recorded_process_is_alive_until_it_is_ended(tmp_path: Path) -> None:
    process = sleeper(tmp_path)
    assert process.alive
    assert processes.recorded(tmp_path) == {"sleeper": process}
    processes.end(process, grace_seconds=5)
    assert not process.alive


def test_a_paused_process_can_be_ended_too(tmp_path: Path) -> None:
    process = sleeper(tmp_path)
    processes.send(process, signal.SIGSTOP)
    processes.end(process, grace_seconds=5)
    assert not process.alive


def test_a_process_of_another_boot_or_another_start_is_not_taken_for_ours(tmp_path: Path) -> None:
    own = processes.Recorded("me", os.getpid(), "0", processes.boot_id())
    assert not own.alive
    process = sleeper(tmp_path)
    file = tmp_path / "processes" / "sleeper.json"
    file.write_text(json.dumps({**json.loads(file.read_text()), "boot": "an earlier one"}))
    assert not processes.recorded(tmp_path)["sleeper"].alive
    processes.end(process, grace_seconds=5)


def test_a_record_cut_short_is_dropped(tmp_path: Path) -> None:
    (tmp_path / "processes").mkdir()
    (tmp_path / "processes" / "etcd.json").write_text('{"name": "et')
    assert processes.recorded(tmp_path) == {}


def test_strays_are_our_programs_in_our_folder_alone(tmp_path: Path) -> None:
    program = Path(sys.executable).resolve()
    with subprocess.Popen([program, "-c", "import time; time.sleep(60)"], cwd=tmp_path) as process:
        assert processes.strays(program.parent, tmp_path) == [process.pid]
        assert processes.strays(program.parent, tmp_path / "other") == []
        assert processes.strays(tmp_path, tmp_path) == []
        process.kill()


def test_a_wait_ends_with_its_last_reason(capsys: pytest.CaptureFixture[str]) -> None:
    with pytest.raises(WaitTimedOutError, match="the node: not within 0 s: not registered"):
        wait_until("the node", lambda: "not registered", timeout_seconds=0)
    assert "waiting for the node" in capsys.readouterr().err


def test_the_context_and_the_images_of_ones_own_cluster_are_taken_from_the_environment() -> None:
    assert foreign.chosen_context({}) is None
    assert foreign.chosen_context({"KUBE_CONTEXT": "prod"}) == "prod"
    names = foreign.image_names({"PENSTOCK_RUNTIME_IMAGE": "registry.example/runtime:1"})
    assert names["runtime"] == "registry.example/runtime:1"
    assert names["operator"] == "localhost/penstock-operator:dev"


def pod(
    phase: str = "Running", port_name: str = "control", ip: str = "10.0.0.1"
) -> dict[str, object]:
    labels = {"penstock.dev/pool-uid": "u", "penstock.dev/pool": "chat"}
    return {
        "metadata": {"name": "chat-1", "namespace": "team", "labels": labels},
        "spec": {"containers": [{"ports": [{"name": port_name, "containerPort": 8001}]}]},
        "status": {"phase": phase, "podIP": ip},
    }


def test_prometheus_is_shown_the_ports_of_running_pods_and_gateways() -> None:
    labels = {"namespace": "team", "pod": "chat-1", "pool": "chat"}
    for port_name in ("control", "status"):
        shown = targets([pod(port_name=port_name)])
        assert shown == [{"targets": ["10.0.0.1:8001"], "labels": labels}]


def test_prometheus_is_not_shown_other_ports_or_pods_that_do_not_run() -> None:
    assert targets([pod(port_name="http"), pod(phase="Pending"), pod(ip="")]) == []
