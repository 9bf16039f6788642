"""Signals from a Prometheus server: one round of queries for all pools (HTTP API v1, `/api/v1/query`).

A range selector returns raw samples with timestamps, so counters are differenced here, and ages are by the clock of
Prometheus. A range has no staleness markers: series of a deleted pod merely age.
"""

import asyncio
import json
from collections import defaultdict
from collections.abc import Iterable, Iterator, Mapping, Sequence
from contextlib import suppress
from dataclasses import dataclass, field
from sys import intern
from typing import Any

import aiohttp
from yarl import URL

from penstock_api.names import CLUSTER_PORT
from penstock_operator.measured import measured
from penstock_operator.net.http import CallFailed, HttpCall, call
from penstock_operator.observe.signals import promql
from penstock_operator.observe.signals.credentials import Credentials
from penstock_operator.observe.signals.dcgm import QUERY as QUERY_DEVICES
from penstock_operator.observe.signals.dcgm import Devices
from penstock_operator.observe.signals.pod_scrape import reachable
from penstock_operator.observe.signals.samples import (
    LABELS,
    BadExposition,
    Reading,
    pod_sample,
    reported_uid,
)
from penstock_operator.observed import PodObject, PodSample, PoolSignals, SignalSource

MIN_SCRAPES = 2
"""Fewer scrapes in the range mean that they fail or are more than 5 s apart."""
FRESH_SECONDS = 10.0
GRACE_SECONDS = 30.0
"""Time after Ready in which service discovery may not have found a pod and scraped it twice yet."""
LIMIT_BYTES = 64 * 1024 * 1024
"""Maximum size of a response."""

Scrapes = dict[float, list[Reading]]
"""Readings by time of the scrape: all series of a scrape have the same time."""
Targets = dict[tuple[str, str], dict[str, Scrapes]]
"""Scrapes by job, by (namespace, instance)."""


@dataclass(frozen=True, slots=True)
class QueryRound:
    """The responses of one server in one round of queries, for the pods of all pools."""

    queried_at: float
    """Time of the round by the server's clock."""
    url: str
    """URL of the server."""
    targets: Targets
    devices: Devices = field(default_factory=Devices)

    def signals(self, namespace: str, pods: Iterable[PodObject]) -> PoolSignals:
        """Return the signals of one pool's verified pods.

        A series is used only if its instance is the cluster port of such a pod, its namespace is the pool's, and its
        scrape contains the pod's UID.
        """
        samples = tuple(
            sample
            for ip, pod in reachable(pods)
            for sample in self.devices.apply(
                namespace,
                pod.name,
                _samples(self.targets.get((namespace, _instance(ip)), {}), pod),
            )
        )
        return PoolSignals(
            SignalSource.PROMETHEUS, samples, queried_at=self.queried_at, url=self.url
        )


async def query(session: aiohttp.ClientSession, access: Credentials) -> QueryRound:
    """Run a round of queries against one server. Raises `CallFailed`.

    A large fleet is queried in parts, one after the other, which bounds the size of each response and of the text in
    memory. The DCGM series are empty if no exporter is scraped.
    """
    queried_at, pods = await _clock(session, access)
    query_round = QueryRound(queried_at, access.url, {})
    for promql_text in promql.current_queries(pods):
        await _add(session, access, query_round, promql_text)
    form = {"query": QUERY_DEVICES, "time": f"{query_round.queried_at:.3f}"}
    devices = await _query(session, access, form)
    await asyncio.to_thread(query_round.devices.add, _result(devices))
    return query_round


async def _clock(session: aiohttp.ClientSession, access: Credentials) -> tuple[float, int]:
    """Return the server's time in Unix seconds, and its number of pods."""
    data = await _query(session, access, {"query": promql.QUERY_PODS})
    try:
        now, text = data["result"][0]["value"]
        queried_at, count = measured(float(now)), measured(float(text))
    except (LookupError, TypeError, ValueError, OverflowError):
        queried_at = count = None
    if queried_at is None or count is None:
        raise CallFailed("Prometheus did not return its time and a number of pods")
    return queried_at, int(count)


async def _add(
    session: aiohttp.ClientSession, access: Credentials, to: QueryRound, query: str
) -> None:
    """Add the response to a query at the round's time."""
    form = {"query": query, "time": f"{to.queried_at:.3f}"}
    answer = await _query(session, access, form)
    await asyncio.to_thread(_sort, answer, to.targets)


async def read_prometheus(
    session: aiohttp.ClientSession,
    url: str,
    pods_by_pool: Mapping[str, tuple[str, Sequence[PodObject]]],
) -> Mapping[str, PoolSignals]:
    """Return the signals by pool UID; `pods_by_pool` gives each pool's namespace and verified pods.

    Raises `CallFailed`.
    """
    query_round = await query(session, Credentials(url))
    return {uid: query_round.signals(*pods) for uid, pods in pods_by_pool.items()}


def missing(signals: PoolSignals, pods: Iterable[PodObject], now: float) -> list[PodObject]:
    """Return the Ready pods with too few samples, or none under 10 s old, on the server.

    Pods that are Ready for less than `GRACE_SECONDS` are left out.
    """
    queried_at = now if signals.queried_at is None else signals.queried_at
    times: dict[str, list[float]] = defaultdict(list)
    for sample in signals.samples:
        times[sample.uid].append(sample.time)

    def known(pod: PodObject) -> bool:
        if pod.ready_since is not None and now - pod.ready_since < GRACE_SECONDS:
            return True
        scrapes = times[pod.uid]
        return len(scrapes) >= MIN_SCRAPES and queried_at - max(scrapes) <= FRESH_SECONDS

    return [pod for pod in pods if pod.ready and not pod.terminating and not known(pod)]


async def _query(
    session: aiohttp.ClientSession,
    access: Credentials,
    form: Mapping[str, str],
) -> Any:
    """Return `data` of a query's response. Raises `CallFailed` with the server's URL."""
    endpoint = _endpoint(access.url)
    request = HttpCall("POST", endpoint, LIMIT_BYTES, access.headers, data=form, tls=access.tls)
    try:
        status, body = await call(session, request)
        if status in (401, 403):
            raise CallFailed(
                f"responded {status}: check the credentials in the policy or in the chart's prometheus values"
            )
        if status != 200:
            raise CallFailed(f"responded {status}{_error_text(body)}")
        answer = await asyncio.to_thread(json.loads, body)
        if not isinstance(answer, dict) or answer.get("status") != "success":
            raise CallFailed("returned no valid query result")
        return answer.get("data")
    except CallFailed as error:
        raise CallFailed(f"Prometheus at {endpoint.origin()} {error}") from error
    except (ValueError, RecursionError) as error:
        text = f"Prometheus at {endpoint.origin()} did not respond with JSON"
        raise CallFailed(text) from error


def _endpoint(url: str) -> URL:
    try:
        endpoint = URL(url.rstrip("/") + "/api/v1/query")
        endpoint.origin()
    except ValueError as error:
        raise CallFailed("Prometheus has no valid URL") from error
    return endpoint


def _error_text(body: bytes) -> str:
    """Return the error text of Prometheus, shortened; empty if there is none."""
    try:
        text = json.loads(body)["error"]
    except (ValueError, LookupError, TypeError, RecursionError):
        return ""
    return f": {str(text)[:200]}"


def _result(data: Any) -> list[Any]:
    result = data.get("result") if isinstance(data, dict) else None
    return result if isinstance(result, list) else []


def _sort(data: Any, targets: Targets) -> None:
    """Add the readings of a response to their targets; malformed series are left out."""
    for series in _result(data):
        try:
            labels, values = series["metric"], series["values"]
            name = intern(labels["__name__"])
            own = {label: intern(labels[label]) for label in LABELS if label in labels}
            jobs = targets.setdefault((labels["namespace"], labels["instance"]), {})
            readings = jobs.setdefault(labels.get("job", ""), defaultdict(list))
            for time, value in values:
                readings[float(time)].append(Reading(name, own, float(value)))
        except (LookupError, TypeError, ValueError, OverflowError):
            continue


def _samples(jobs: Mapping[str, Scrapes], pod: PodObject) -> list[PodSample]:
    """Return the samples of a pod; if several jobs scrape it, those of the freshest."""
    by_job = (list(_job_samples(at, pod)) for at in jobs.values())
    return max(by_job, key=lambda samples: samples[-1].time if samples else 0.0, default=[])


def _job_samples(scrapes: Scrapes, pod: PodObject) -> Iterator[PodSample]:
    """Yield the samples of a pod, oldest first; scrapes of another pod and invalid ones are left out."""
    for time, readings in sorted(scrapes.items()):
        if reported_uid(readings) == pod.uid:
            with suppress(BadExposition):
                yield pod_sample(readings, pod.uid, time)


def _instance(ip: str) -> str:
    host = f"[{ip}]" if ":" in ip else ip
    return f"{host}:{CLUSTER_PORT}"
