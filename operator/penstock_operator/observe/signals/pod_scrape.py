"""Signals from the pods: one scrape of each pod's cluster port."""

import asyncio
from collections.abc import Iterable
from dataclasses import replace
from functools import partial

import aiohttp

from penstock_api.names import CLUSTER_PORT, PATH_METRICS
from penstock_operator.net.http import CallFailed, HttpCall, call, pod_url
from penstock_operator.net.pod_calls import PodCalls
from penstock_operator.observe.signals.samples import BadExposition, parse, pod_sample, reported_uid
from penstock_operator.observed import PodObject, PodSample, PoolSignals, SignalSource

LIMIT_BYTES = 1024 * 1024
HEADERS = {"Accept": "text/plain;version=0.0.4"}


def reachable(pods: Iterable[PodObject]) -> list[tuple[str, PodObject]]:
    """Return (address, pod) of the pods with an address of their own, not the node's."""
    return [(pod.ip, pod) for pod in pods if pod.ip is not None and not pod.host_network]


async def read_pods(
    session: aiohttp.ClientSession,
    pods: Iterable[PodObject],
    now: float,
    problem: str = "",
    calls: PodCalls | None = None,
) -> PoolSignals:
    """Return the signals of a pool's pods; `problem` is why Prometheus was not used. Failures are in the result's problem.

    Samples have the time of the response, by the operator's clock. The source is None if Ready pods failed and no pod
    answered.
    """
    started = asyncio.get_running_loop().time()
    targets = reachable(pods)
    answers = await (calls or PodCalls()).run(
        {pod.uid: partial(_read, session, ip, pod) for ip, pod in targets}
    )
    samples = tuple(
        replace(answer, time=answer.time - started + now)
        for answer in answers.values()
        if isinstance(answer, PodSample)
    )
    failures = [
        f"{PATH_METRICS} {answer}"
        for _, pod in targets
        if isinstance(answer := answers[pod.uid], CallFailed) and pod.ready and not pod.terminating
    ]
    if failures:
        count = f"{len(failures)} Ready pod{'s' if len(failures) > 1 else ''}"
        problem = "; ".join(filter(None, (problem, f"{count}: {sorted(failures)[0]}")))
    blind = bool(failures) and not samples
    source = SignalSource.NONE if blind else SignalSource.PODS
    return PoolSignals(source=source, samples=samples, problem=problem)


async def _read(session: aiohttp.ClientSession, ip: str, pod: PodObject) -> PodSample:
    """Return a sample with its time by the event loop's clock. Raises `CallFailed`."""
    url = pod_url(ip, CLUSTER_PORT, PATH_METRICS, pod.tls_name)
    request = HttpCall("GET", url, LIMIT_BYTES, HEADERS, tls_name=pod.tls_name)
    status, body = await call(session, request)
    if status != 200:
        raise CallFailed(f"responded {status}")
    try:
        readings = parse(body.decode())
        if reported_uid(readings) != pod.uid:
            raise CallFailed("was served by another pod")
        return pod_sample(readings, pod.uid, asyncio.get_running_loop().time())
    except BadExposition as error:
        raise CallFailed(str(error)) from error
    except UnicodeDecodeError as error:
        raise CallFailed("returned something that is not text") from error
