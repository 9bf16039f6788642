"""The kubectl plugin as a user runs it, from the PATH and against the real API server."""

import json
import os
import shutil
import signal
import subprocess
import sys
import uuid
from collections.abc import Iterator
from pathlib import Path

import pytest
import yaml

from penstock_kubectl.pool_context import pool_object
from penstock_operator.decide.manifests.pod_template.pod import pod_template
from penstock_operator.decide.manifests.revision import labelled, revision
from tests.support.kube.api import POOLS, Api
from tests.support.kube.install import install_crds
from tests.support.kube.pools import until
from tests.support.kube.target import Target
from tests.unit.kubectl.stage import HEAD, STATUS, pool
from tests.unit.operator.decide.world import CONFIG


@pytest.fixture(scope="module")
def target() -> Target:
    return Target.from_env()


@pytest.fixture(scope="module")
def api(kubeconfig: Path, target: Target, empty_stage: None) -> Api:
    client = target.api()
    install_crds(client)
    return client


@pytest.fixture(scope="module")
def namespace(api: Api) -> Iterator[str]:
    """A namespace with a pool, its status and an Event, as an operator writes them; none runs here."""
    name = f"plugin-{uuid.uuid4().hex[:6]}"
    api.create({"apiVersion": "v1", "kind": "Namespace", "metadata": {"name": name}})
    created = api.create(
        {**HEAD, "metadata": {"name": "chat", "namespace": name}, "spec": pool()["spec"]}
    )
    path = f"{POOLS}/namespaces/{name}/inferencepools/chat"
    api.merge(f"{path}/status", {"status": STATUS})
    about = {"uid": created["metadata"]["uid"], "namespace": name, "name": "chat"}
    api.create(
        {
            "apiVersion": "v1",
            "kind": "Event",
            "metadata": {"name": "chat.1", "namespace": name},
            "involvedObject": {**HEAD, **about},
            "type": "Normal",
            "reason": "ScaledUp",
            "message": "Replicas 2 -> 3: 161.0 rows/s forecast in 45 s.",
            "lastTimestamp": "2026-11-21T10:20:00Z",
        }
    )
    yield name
    api.delete(f"/api/v1/namespaces/{name}")


def plugin(target: Target, *words: str) -> subprocess.CompletedProcess[str]:
    """Run `kubectl penstock` and wait until it ends."""
    argv, environ = command(target, *words)
    return subprocess.run(
        argv, env=environ, capture_output=True, text=True, check=False, timeout=90
    )


def command(target: Target, *words: str) -> tuple[list[str], dict[str, str]]:
    """Return the command and its environment with the kubeconfig: kubectl passes no flags of its own to plugins."""
    program = shutil.which("kubectl-penstock", path=str(Path(sys.executable).parent))
    assert program is not None, "the package's console script"
    kubectl, *_ = target.kubectl_command()
    folders = (str(Path(program).parent), str(Path(kubectl).parent), os.environ["PATH"])
    environ = {**os.environ, "PATH": os.pathsep.join(folders)}
    if target.kubeconfig:
        environ["KUBECONFIG"] = target.kubeconfig
    context = ("--context", target.context) if target.context else ()
    return [kubectl, "penstock", *words, *context], environ


def test_kubectl_finds_it_and_it_explains_a_real_pool(target: Target, namespace: str) -> None:
    done = plugin(target, "explain", "chat", "-n", namespace)
    assert done.returncode == 0, done.stderr
    for part in (
        f"{namespace}/chat",
        "limited by a policy's bound on replicas",
        "100.00 + 10.000 b ms",
        "Forecast 3.40",
        "meets the objective",
        "Replicas 2 -> 3: 161.0 rows/s forecast in 45 s.",
    ):
        assert part in done.stdout, part


def test_it_simulates_a_policy_file_on_a_trace(
    target: Target, namespace: str, tmp_path: Path
) -> None:
    trace, file = tmp_path / "arrivals.txt", tmp_path / "less.yaml"
    trace.write_text("".join(f"{index / 250}\n" for index in range(60_000)))
    selector = {"matchLabels": {"kubernetes.io/metadata.name": namespace}}
    spec = {"namespaceSelector": selector, "bounds": {"replicas": {"max": 2}}}
    file.write_text(
        yaml.safe_dump(
            {**HEAD, "kind": "InferencePolicy", "metadata": {"name": "less"}, "spec": spec}
        )
    )
    words = ["--trace", str(trace), "--policy", str(file), "--json", str(tmp_path / "out.json")]
    done = plugin(target, "simulate", "chat", "-n", namespace, *words)
    assert done.returncode == 0, done.stderr
    cases = {
        case["case"]: case for case in json.loads((tmp_path / "out.json").read_text())["cases"]
    }
    assert cases["with less.yaml"]["most_replicas"] == 2
    assert cases["as it is"]["most_replicas"] > 2
    assert "with less.yaml" in done.stdout


def test_an_absent_pool_is_reported(target: Target, namespace: str) -> None:
    done = plugin(target, "explain", "none", "-n", namespace)
    assert done.returncode == 1
    assert f"inferencepools {namespace}/none not found" in done.stderr


@pytest.fixture
def rendered(api: Api, namespace: str) -> str:
    """The ControllerRevision of the pool, as an operator stores it, and the pool's status that names it."""
    path = f"{POOLS}/namespaces/{namespace}/inferencepools/chat"
    given = pool_object(api.request("GET", path))
    template = labelled(given, pod_template(given, CONFIG))
    api.create(revision(given, template, "inputs", 1))
    name: str = template["metadata"]["labels"]["penstock.dev/revision"]
    api.merge(f"{path}/status", {"status": {"template": {"revision": name}}})
    return name


def test_the_job_of_the_tuner_is_valid_and_outlives_the_command(
    target: Target, api: Api, namespace: str, rendered: str, tmp_path: Path
) -> None:
    job = f"/apis/batch/v1/namespaces/{namespace}/jobs/chat-tune"
    trials = f"/api/v1/namespaces/{namespace}/configmaps/chat-tune"
    words = ["tune", "chat", "-n", namespace]
    argv, environ = command(target, *words, "--objective", "800@99.9")
    argv = ["env", "--default-signal=INT", *argv]  # tests started in the background ignore it
    log = tmp_path / "log"
    with log.open("wb") as out, subprocess.Popen(argv, env=environ, stderr=out) as running:
        until("the trials kept", lambda: api.get(trials), seconds=60)
        until(
            "the pod awaited", lambda: "starting" in (text := log.read_text()) or "waiting" in text
        )
        running.send_signal(signal.SIGINT)
        assert running.wait(30) == 130, log.read_text()
    assert "the Job continues" in log.read_text()
    created = api.request("GET", job)
    (container,) = created["spec"]["template"]["spec"]["containers"]
    assert container["image"] == CONFIG.default_runtime_image
    assert {f"--study={rendered}", "--objective-ms=800", "--percent=99.9"} <= set(container["args"])
    other = plugin(target, *words, "--objective", "900")
    assert other.returncode == 1
    assert "runs with other options" in " ".join(other.stderr.split())
    assert "removed" in plugin(target, *words, "--delete").stdout
    assert api.get(job) is None
    assert api.get(trials) is None
