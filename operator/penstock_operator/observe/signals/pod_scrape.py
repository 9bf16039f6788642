"""Signals from the pods: one scrape of each pod's cluster port."""

import asyncio
from collections.abc import Iterable
from dataclasses import replace

import aiohttp

from penstock_api.names import CLUSTER_PORT, PATH_METRICS
from penstock_operator.net.http import CONNECTIONS, CallFailed, HttpCall, call, pod_url
from penstock_operator.observe.signals.samples import BadExposition, parse, pod_sample, reported_uid
from penstock_operator.observed import PodObject, PodSample, PoolSignals, SignalSource

LIMIT_BYTES = 1024 * 1024
HEADERS = {"Accept": "text/plain;version=0.0.4"}


def reachable(pods: Iterable[PodObject]) -> list[tuple[str, PodObject]]:
    """Return (address, pod) of the pods with an address of their own, not the node's."""
    return [(pod.ip, pod) for pod in pods if pod.ip is not None and not pod.host_network]


async def read_pods(
    session: aiohttp.ClientSession, pods: Iterable[PodObject], now: float, problem: str = ""
) -> PoolSignals:
    """Return the signals of the pods; `problem` is why Prometheus was not used. Failures are in the result's problem.

    Samples have the time of the response, by the operator's clock. The source is None if Ready pods failed and no pod
    answered.
    """
    started = asyncio.get_running_loop().time()
    gate = asyncio.Semaphore(CONNECTIONS)
    targets = reachable(pods)
    answers = await asyncio.gather(*(_read(session, ip, pod, gate) for ip, pod in targets))
    samples = tuple(
        replace(answer, time=answer.time - started + now)
        for answer in answers
        if isinstance(answer, PodSample)
    )
    failures = [
        answer
        for (_, pod), answer in zip(targets, answers, strict=True)
        if isinstance(answer, str) and pod.ready and not pod.terminating
    ]
    if failures:
        count = f"{len(failures)} Ready pod{'s' if len(failures) > 1 else ''}"
        problem = "; ".join(filter(None, (problem, f"{count}: {sorted(failures)[0]}")))
    blind = bool(failures) and not samples
    source = SignalSource.NONE if blind else SignalSource.PODS
    return PoolSignals(source=source, samples=samples, problem=problem)


async def _read(
    session: aiohttp.ClientSession, ip: str, pod: PodObject, gate: asyncio.Semaphore
) -> PodSample | str:
    """Return a sample with its time by the event loop's clock, or the problem."""
    try:
        async with gate:
            url = pod_url(ip, CLUSTER_PORT, PATH_METRICS, pod.tls_name)
            request = HttpCall("GET", url, LIMIT_BYTES, HEADERS, tls_name=pod.tls_name)
            status, body = await call(session, request)
        if status != 200:
            return f"{PATH_METRICS} responded {status}"
        readings = parse(body.decode())
        if reported_uid(readings) != pod.uid:
            return f"{PATH_METRICS} was served by another pod"
        return pod_sample(readings, pod.uid, asyncio.get_running_loop().time())
    except (CallFailed, BadExposition) as error:
        return f"{PATH_METRICS} {error}"
    except UnicodeDecodeError:
        return f"{PATH_METRICS} returned something that is not text"
