"""Signals from a Prometheus server: one round for all pools (HTTP API v1, `/api/v1/query`).

A range selector gives raw samples with their own timestamps, so counters are differenced here and ages
are by the store's own clock. A range holds no staleness markers: what is gone is merely old.
"""

import asyncio
import json
from collections import defaultdict
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass, field
from sys import intern
from typing import Any

import aiohttp
from yarl import URL

from penstock_api.names import CLUSTER_PORT
from penstock_operator.net.http import CallFailed, HttpCall, call
from penstock_operator.observe.signals import promql
from penstock_operator.observe.signals.credentials import Credentials
from penstock_operator.observe.signals.dcgm import QUERY as QUERY_DEVICES
from penstock_operator.observe.signals.dcgm import Devices
from penstock_operator.observe.signals.pod_scrape import reachable
from penstock_operator.observe.signals.samples import LABELS, Reading, pod_sample, reported_uid
from penstock_operator.observed import PodObject, PodSample, PoolSignals, SignalSource, measured

LEAST_SCRAPES = 2
"""Fewer in the range: scraped more slowly than every 5 s, or scrapes fail."""
FRESH_SECONDS = 10.0
GRACE_SECONDS = 30.0
"""A pod Ready for less may not have been found by the server's discovery and scraped twice yet."""
LIMIT_BYTES = 64 * 1024 * 1024
"""Of one answer."""
LIMIT_PAST_BYTES = 2 * promql.PAST_BYTES
"""Of the answer about the past: it is larger than estimated where scrapes are closer, or pods have just gone."""

Scrapes = dict[float, list[Reading]]
"""Time of the scrape -> its readings: one scrape gives all its series one time."""
Targets = dict[tuple[str, str], dict[str, Scrapes]]
"""(namespace, instance) -> job -> its scrapes: a pool's pods are looked up, never searched for."""


@dataclass(frozen=True, slots=True)
class QueryRound:
    """Everything that one server knows of all pools' pods, by one round of questions."""

    queried_at: float
    """The server's own clock."""
    url: str
    """Of the server."""
    targets: Targets
    devices: Devices = field(default_factory=Devices)

    def signals(self, namespace: str, pods: Iterable[PodObject]) -> PoolSignals:
        """Return the signals of one pool's verified pods.

        A series counts only if its instance is the cluster port of a verified pod of that pool, its namespace
        is the pool's, and the scrape it came with names that pod's UID.
        """
        samples = tuple(
            sample
            for ip, pod in reachable(pods)
            for sample in self.devices.told(
                namespace,
                pod.name,
                _samples(self.targets.get((namespace, _instance(ip)), {}), pod),
            )
        )
        return PoolSignals(
            SignalSource.PROMETHEUS, samples, queried_at=self.queried_at, url=self.url
        )


async def query(session: aiohttp.ClientSession, access: Credentials) -> QueryRound:
    """Return a round of one server. Raises `CallFailed`.

    A large fleet is asked about a part at a time, one after the other, so that no answer is too large and only one is
    held as text. What the devices say is asked where they are; it is empty where no exporter is scraped.
    """
    asked, pods = await _clock(session, access, promql.QUERY_PODS)
    told = QueryRound(asked, access.url, {})
    for query in promql.of_now(pods):
        await _add(session, access, told, query, LIMIT_BYTES)
    form = {"query": QUERY_DEVICES, "time": f"{told.queried_at:.3f}"}
    devices = await _query(session, access, form, LIMIT_BYTES)
    await asyncio.to_thread(told.devices.add, _result(devices))
    return told


async def _clock(
    session: aiohttp.ClientSession, access: Credentials, query: str
) -> tuple[float, int]:
    """Return a server's own clock, Unix seconds, and the number that it answers with."""
    data = await _query(session, access, {"query": query}, LIMIT_BYTES)
    try:
        now, text = data["result"][0]["value"]
        asked, count = measured(float(now)), measured(float(text))
    except (LookupError, TypeError, ValueError, OverflowError):
        asked = count = None
    if asked is None or count is None:
        raise CallFailed("Prometheus did not answer with its time and a number of pods or series")
    return asked, int(count)


async def _add(
    session: aiohttp.ClientSession, access: Credentials, to: QueryRound, query: str, limit: int
) -> None:
    """Add the answer to a question, as of the round's time, of at most `limit` bytes."""
    form = {"query": query, "time": f"{to.queried_at:.3f}"}
    answer = await _query(session, access, form, limit)
    await asyncio.to_thread(_sort, answer, to.targets)


async def query_past(session: aiohttp.ClientSession, access: Credentials) -> QueryRound:
    """Return what one server has of the last minutes, empty where that is too much for one answer. Raises `CallFailed`."""
    asked, series = await _clock(session, access, promql.QUERY_PAST_SERIES)
    told, query = QueryRound(asked, access.url, {}), promql.of_past(series)
    if query is not None:
        await _add(session, access, told, query, LIMIT_PAST_BYTES)
    return told


async def read_prometheus(
    session: aiohttp.ClientSession,
    url: str,
    pods_by_pool: Mapping[str, tuple[str, Sequence[PodObject]]],
) -> Mapping[str, PoolSignals]:
    """Return the signals by pool UID; `pods_by_pool` gives each pool's namespace and verified pods.

    Raises `CallFailed`.
    """
    found = await query(session, Credentials(url))
    return {uid: found.signals(*asked) for uid, asked in pods_by_pool.items()}


def missing(signals: PoolSignals, pods: Iterable[PodObject], now: float) -> list[PodObject]:
    """Return the Ready pods of which the server knows too little, or nothing under 10 s old.

    A pod Ready for less than `GRACE_SECONDS` is not missed yet.
    """
    asked = now if signals.queried_at is None else signals.queried_at
    times: dict[str, list[float]] = defaultdict(list)
    for sample in signals.samples:
        times[sample.uid].append(sample.time)

    def known(pod: PodObject) -> bool:
        if pod.ready_since is not None and now - pod.ready_since < GRACE_SECONDS:
            return True
        seen = times[pod.uid]
        return len(seen) >= LEAST_SCRAPES and asked - max(seen) <= FRESH_SECONDS

    return [pod for pod in pods if pod.ready and not pod.terminating and not known(pod)]


async def _query(
    session: aiohttp.ClientSession,
    access: Credentials,
    form: Mapping[str, str],
    limit: int,
) -> Any:
    """Return `data` of a query's answer; raises `CallFailed`, naming the server."""
    where = _endpoint(access.url)
    question = HttpCall("POST", where, limit, access.headers, data=form, tls=access.tls)
    try:
        status, body = await call(session, question)
        if status in (401, 403):
            raise CallFailed(
                f"answered {status}: check the credentials that its policy or the chart names"
            )
        if status != 200:
            raise CallFailed(f"answered {status}{_said(body)}")
        answer = await asyncio.to_thread(json.loads, body)
        if not isinstance(answer, dict) or answer.get("status") != "success":
            raise CallFailed("did not answer as Prometheus does")
        return answer.get("data")
    except CallFailed as error:
        raise CallFailed(f"Prometheus at {where.origin()} {error}") from error
    except (ValueError, RecursionError) as error:
        text = f"Prometheus at {where.origin()} did not answer in JSON"
        raise CallFailed(text) from error


def _endpoint(url: str) -> URL:
    try:
        where = URL(url.rstrip("/") + "/api/v1/query")
        where.origin()
    except ValueError as error:
        raise CallFailed("Prometheus has no valid URL") from error
    return where


def _said(body: bytes) -> str:
    """Return Prometheus' own error text, shortened, where there is one."""
    try:
        said = json.loads(body)["error"]
    except (ValueError, LookupError, TypeError, RecursionError):
        return ""
    return f": {str(said)[:200]}"


def _result(data: Any) -> list[Any]:
    result = data.get("result") if isinstance(data, dict) else None
    return result if isinstance(result, list) else []


def _sort(data: Any, found: Targets) -> None:
    """Add an answer's readings to those of their targets; malformed series are left out."""
    for series in _result(data):
        try:
            labels, values = series["metric"], series["values"]
            name = intern(labels["__name__"])
            kept = {label: intern(labels[label]) for label in LABELS if label in labels}
            jobs = found.setdefault((labels["namespace"], labels["instance"]), {})
            readings = jobs.setdefault(labels.get("job", ""), defaultdict(list))
            for time, value in values:
                readings[float(time)].append(Reading(name, kept, float(value)))
        except (LookupError, TypeError, ValueError, OverflowError):
            continue


def _samples(jobs: Mapping[str, Scrapes], pod: PodObject) -> list[PodSample]:
    """Return the samples of a pod. Where two jobs scrape it, the fresher one counts, alone."""
    by_job = (
        [
            pod_sample(readings, pod.uid, time)
            for time, readings in sorted(at.items())
            if reported_uid(readings) == pod.uid
        ]
        for at in jobs.values()
    )
    return max(by_job, key=lambda samples: samples[-1].time if samples else 0.0, default=[])


def _instance(ip: str) -> str:
    host = f"[{ip}]" if ":" in ip else ip
    return f"{host}:{CLUSTER_PORT}"
