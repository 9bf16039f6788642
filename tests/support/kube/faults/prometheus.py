"""Faults of the test Prometheus: stopped, not scraping, stale."""

import json
import urllib.parse
import urllib.request
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path

from tests.support.cluster.host import kernel
from tests.support.kube.api import Api, Object
from tests.support.kube.faults.packets import dropped
from tests.support.kube.install import PROMETHEUS_DEPLOYMENT
from tests.support.kube.pools import condition_of, until

PODS = "/api/v1/namespaces/monitoring/pods?labelSelector=app.kubernetes.io/name%3Dprometheus"
PROGRAM = "prometheus"


@contextmanager
def stopped(api: Api) -> Iterator[None]:
    """Scale Prometheus to zero inside the context."""
    api.merge(f"{PROMETHEUS_DEPLOYMENT}/scale", {"spec": {"replicas": 0}})
    try:
        yield
    finally:
        api.merge(f"{PROMETHEUS_DEPLOYMENT}/scale", {"spec": {"replicas": 1}})

        def available() -> bool:
            condition = condition_of(api.request("GET", PROMETHEUS_DEPLOYMENT), "Available")
            return condition.get("status") == "True"

        until("Prometheus back", available, seconds=60)


@contextmanager
def not_scraping(api: Api) -> Iterator[None]:
    """Drop its scrapes of all pods: it still answers queries, and its series go stale."""
    with dropped("FORWARD", "-s", _pod(api)["status"]["podIP"]):
        yield


def url(api: Api) -> str:
    """Return the URL of its pod."""
    return f"http://{_pod(api)['status']['podIP']}:9090"


@contextmanager
def stale(api: Api, url: str, metric: str, older_than_seconds: float) -> Iterator[None]:
    """Make Prometheus answer with old samples and scrape no new ones inside the context.

    If only scraping fails, Prometheus marks the series as ended. If it is killed meanwhile, it does not: it starts again
    with its data and answers with the last samples for five minutes (`--query.lookback-delta`).
    """
    pod = _pod(api)
    with not_scraping(api):
        before = _restarts(pod)
        _kill(pod)
        until("Prometheus starts again", lambda: _restarts(_pod(api)) > before, seconds=60)

        def old() -> bool | str:
            ages = query(url, f"time() - timestamp({metric})")
            return (bool(ages) and min(ages) > older_than_seconds) or f"ages {ages}"

        until("its answers are old", old, seconds=60, every=1.0)
        yield


def _pod(api: Api) -> Object:
    pods = [pod for pod in api.list(PODS) if "deletionTimestamp" not in pod["metadata"]]
    (pod,) = pods
    return pod


def _restarts(pod: Object) -> int:
    statuses: list[Object] = pod["status"].get("containerStatuses", [])
    return sum(container["restartCount"] for container in statuses if container["name"] == PROGRAM)


def _kill(pod: Object) -> None:
    """Kill the Prometheus process, but not its discovery sidecar."""
    for pid in kernel.pod_processes(pod["metadata"]["uid"]):
        if Path(f"/proc/{pid}/comm").read_text().strip() == PROGRAM:
            kernel.kill(pid)


def query(url: str, expression: str) -> list[float]:
    """Return the values of an instant query; none while Prometheus does not answer."""
    address = f"{url}/api/v1/query?{urllib.parse.urlencode({'query': expression})}"
    try:
        with urllib.request.urlopen(address, timeout=5) as answer:  # noqa: S310 - the test Prometheus
            result = json.loads(answer.read())["data"]["result"]
    except OSError:
        return []
    return [float(sample["value"][1]) for sample in result]
