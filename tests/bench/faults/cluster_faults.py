"""Faults of the pool's dependencies: Prometheus, the API server, etcd, watches."""

import threading
from collections.abc import Callable, Iterator
from contextlib import AbstractContextManager, contextmanager

from penstock_api import names
from penstock_operator.kube.kinds import WATCHED
from tests.bench.faults.stage import FaultStage
from tests.support.cluster import faults
from tests.support.kube.faults import prometheus
from tests.support.kube.faults.fault_proxy import ProxyFault
from tests.support.kube.pools import until

OLD_SECONDS = 30.0
ETCD_STOPS_SECONDS, ETCD_RUNS_SECONDS = 0.4, 0.1


@contextmanager
def prometheus_dead(stage: FaultStage) -> Iterator[None]:
    """Stop Prometheus."""
    with prometheus.stopped(stage.api):
        yield


@contextmanager
def prometheus_stale(stage: FaultStage) -> Iterator[None]:
    """Make Prometheus answer with old samples only."""
    known = names.METRIC_ROWS_RECEIVED
    with prometheus.stale(stage.api, stage.prometheus_url, known, OLD_SECONDS):
        yield


def rejections(answers: ProxyFault) -> Callable[[FaultStage], AbstractContextManager[None]]:
    """Return the fault that replaces the API server's answers to the operator."""

    @contextmanager
    def inject(stage: FaultStage) -> Iterator[None]:
        before = stage.proxy.answers[int(answers.value)]
        stage.proxy.fault = answers
        try:
            yield
        finally:
            stage.proxy.fault = ProxyFault.NONE
        assert stage.proxy.answers[int(answers.value)] > before, "the operator sent no request"

    return inject


@contextmanager
def watches_dropped(stage: FaultStage) -> Iterator[None]:
    """Cut every watch of the operator, and reject new ones for a while."""
    until("every kind is watched", lambda: stage.proxy.watches >= len(WATCHED), seconds=60)
    stage.proxy.fault = ProxyFault.NO_WATCH
    stage.proxy.drop_watches()
    try:
        yield
    finally:
        stage.proxy.fault = ProxyFault.NONE


@contextmanager
def api_server_down(stage: FaultStage) -> Iterator[None]:
    """Kill the API server and restart it later, for all clients including the kubelet."""
    with faults.stopped(stage.places, "kube-apiserver"):
        yield


@contextmanager
def etcd_slow(stage: FaultStage) -> Iterator[None]:
    """Pause etcd for 0.4 s of every 0.5 s."""
    over = threading.Event()

    def drag() -> None:
        while not over.wait(ETCD_RUNS_SECONDS):
            faults.pause(stage.places, "etcd")
            over.wait(ETCD_STOPS_SECONDS)
            faults.resume(stage.places, "etcd")

    thread = threading.Thread(target=drag, name="etcd drags")
    thread.start()
    try:
        yield
    finally:
        over.set()
        thread.join()
        faults.resume(stage.places, "etcd")
