"""Entry point of the operator: reads the settings, connects, and runs the watches, the reconciler and its tasks."""

import asyncio
import gc
import logging
import os
import sys
import threading
import time
from contextlib import AsyncExitStack
from dataclasses import dataclass
from pathlib import Path

from aiohttp import ClientSession

from penstock_api.certificates import CertificateUnusable, ServerCertificate
from penstock_api.types.pod_template.container import ImagePullPolicy
from penstock_api.types.pod_template.security import IdSource
from penstock_operator import health
from penstock_operator.act.children import Children
from penstock_operator.act.events import Events
from penstock_operator.act.executor import PoolActs
from penstock_operator.act.rate_limit import TokenBucket, WriteBudget
from penstock_operator.act.settings_records import SettingsRecords
from penstock_operator.act.status import Statuses
from penstock_operator.act.writer import Writer
from penstock_operator.config import OperatorConfig, metrics_server, variables_of
from penstock_operator.decide.config import DecideConfig, GatewayConfig
from penstock_operator.errors import OperatorConfigError
from penstock_operator.kube import kinds
from penstock_operator.kube.client import ApiClient, connect
from penstock_operator.kube.namespace_leases import Leases
from penstock_operator.kube.scope import Scope, scope_of
from penstock_operator.net import http
from penstock_operator.net.tls import PodTrust
from penstock_operator.observe.batch_status import BatchReader
from penstock_operator.observe.cluster.absence import Confirmations
from penstock_operator.observe.cluster.cache import ObjectStore
from penstock_operator.observe.cluster.crd_skew import ServedSchemas
from penstock_operator.observe.cluster.relist import Resync
from penstock_operator.observe.cluster.watches import Watches
from penstock_operator.observe.gateway_demand import DemandWatch
from penstock_operator.observe.gateway_status import GatewayReader
from penstock_operator.observe.nodes import NodeReader
from penstock_operator.observe.observer import Observer
from penstock_operator.observe.signals.credentials import CredentialsCache
from penstock_operator.observe.signals.shared_queries import SharedQueries
from penstock_operator.periodic import (
    compare_schemas,
    refresh_keys,
    reload_certificates,
    sweep_records,
    sync_store,
)
from penstock_operator.reconcile_state import ReconcileState
from penstock_operator.reconciler.leader_state import LeaderState
from penstock_operator.reconciler.loop import Phase, Reconciler
from penstock_operator.reconciler.passes import PassRunner
from penstock_operator.telemetry import logs

log = logging.getLogger("penstock_operator")

EXIT_SECONDS = 10.0
"""Time for the remaining tasks to end after the operator's own have ended."""
GC_THRESHOLDS = (50_000, 20, 100)
"""Garbage-collection thresholds by generation. Every tick rebuilds each pool's state as thousands of small frozen values;
at Python's default of 700 the collector costs as much CPU as the decisions. Reference counting frees nearly all of
them: cycles are few."""


def main() -> None:
    """Run the operator until a signal ends it."""
    try:
        config = OperatorConfig.from_env({**os.environ, **variables_of(sys.argv[1:])})
    except OperatorConfigError as error:
        sys.exit(f"penstock-operator: {error}")
    gc.set_threshold(*GC_THRESHOLDS)
    logs.set_up(config.log_format, config.log_level)
    with asyncio.Runner() as runner:
        status = _run_until_end(runner, config)
        _force_exit(code=1 if status else 0)
    sys.exit(status)


def _run_until_end(runner: asyncio.Runner, config: OperatorConfig) -> str | int | None:
    """Run the operator; return the exit status or message, None after a signal."""
    try:
        runner.run(run(config))
    except OperatorConfigError as error:
        return f"penstock-operator: {error}"
    except Exception:
        log.exception("the operator exits because of an error")
        return 1
    return None


def _force_exit(code: int) -> None:
    """End the process after `EXIT_SECONDS` even if a cancelled task does not end: kopf's tasks may wait forever."""
    watchdog = threading.Timer(EXIT_SECONDS, os._exit, (code,))
    watchdog.daemon = True
    watchdog.start()


async def run(config: OperatorConfig) -> None:
    """Run everything; return after SIGTERM or SIGINT.

    Raises:
        OperatorConfigError: the API server cannot be reached, or a watched kind cannot be listed.
        Exception: the error that ended a task.
    """
    async with AsyncExitStack() as stack:
        configuration = await connect()
        cluster = ApiClient(configuration)
        stack.push_async_callback(cluster.close)
        scope = await scope_of(config, cluster)
        leases = Leases.of(configuration, config.namespace, config.pod_name, scope.namespaces or ())
        trust, certificate = _certificates(config)
        sessions = http.new_session(), http.new_session(trust.context)
        for session in sessions:
            stack.push_async_callback(session.close)
        parts = _build(config, cluster, sessions, leases, scope)
        reconciler, store = parts.reconciler, parts.store
        resync = Resync(cluster, store, reconciler.enqueue, scope)
        watches = Watches(scope, store, resync, reconciler.enqueue, config.pod_name)
        runner = await health.serve(
            reconciler, config.port, certificate.context if certificate is not None else None
        )
        stack.push_async_callback(runner.cleanup)
        stack.callback(leases.stop)
        leases.start()
        log.info("watching", extra=logs.fields(namespace=config.namespace))
        tasks = [
            asyncio.create_task(reconciler.run(), name="reconciler"),
            asyncio.create_task(sync_store(reconciler, resync, parts.schemas), name="resync"),
            asyncio.create_task(
                refresh_keys(reconciler, parts.writer, config.namespace), name="keys"
            ),
            asyncio.create_task(sweep_records(reconciler, parts.records), name="sweep"),
            asyncio.create_task(compare_schemas(reconciler, parts.schemas), name="schemas"),
            asyncio.create_task(reload_certificates(trust, certificate), name="certificates"),
        ]
        if parts.demand is not None:
            tasks.append(asyncio.create_task(parts.demand.run(), name="demand"))
        await _until_any_ends(asyncio.create_task(watches.run(), name="watch"), tasks)


def _certificates(config: OperatorConfig) -> tuple[PodTrust, ServerCertificate | None]:
    trust = PodTrust(Path(config.pod_ca_file) if config.pod_ca_file else None)
    try:
        return trust, ServerCertificate(Path(config.tls_folder)) if config.tls_folder else None
    except CertificateUnusable as error:
        raise OperatorConfigError(f"PENSTOCK_TLS_FOLDER: {error}") from error


async def _until_any_ends(watch: asyncio.Task[None], tasks: list[asyncio.Task[None]]) -> None:
    """Wait for the first task to end, cancel the others, the watch last, and raise the error that ended it."""
    done, _ = await asyncio.wait([watch, *tasks], return_when=asyncio.FIRST_COMPLETED)
    for task in tasks:
        task.cancel()
    await asyncio.gather(*tasks, return_exceptions=True)
    if not watch.done():
        watch.cancel()
        await asyncio.gather(watch, return_exceptions=True)
    for task in done:
        if not task.cancelled():
            task.result()


@dataclass(frozen=True, slots=True)
class _Parts:
    """The reconciler, and what the periodic tasks share with it."""

    reconciler: Reconciler
    store: ObjectStore
    writer: Writer
    records: SettingsRecords
    schemas: ServedSchemas
    demand: DemandWatch | None
    """None: this installation has no gateways."""


def _build(
    config: OperatorConfig,
    cluster: ApiClient,
    sessions: tuple[ClientSession, ClientSession],
    leases: Leases,
    scope: Scope,
) -> _Parts:
    """Return the reconciler and its parts; `sessions` are for Prometheus and for pods."""
    store = ObjectStore(own_namespace=config.namespace)
    budget = WriteBudget(TokenBucket(updated=time.monotonic()), time.monotonic)
    writer = Writer(cluster, budget, leases.valid_in)
    records, schemas = SettingsRecords(writer, store), ServedSchemas(cluster)

    def enqueue(pools: frozenset[str] | None) -> None:
        reconciler.enqueue(pools)

    statuses = Statuses(writer, store, schemas, enqueue)
    acts = PoolActs(Children(writer, store), statuses, Events(writer), records)
    decide = _decide_config(config)
    guarded = kinds.NAMED_CHILDREN if decide.peers is None else kinds.GUARDED_CHILDREN
    named = (*guarded, kinds.LEADER_WORKER_SET) if decide.groups else guarded
    gateways = GatewayReader(sessions[1], store) if decide.gateway is not None else None
    observer = Observer(
        store,
        Confirmations(cluster, store, named, gateways=decide.gateway is not None),
        sessions[0],
        ReconcileState(),
        metrics_server(config),
        sessions[1],
        SharedQueries(CredentialsCache(cluster, config.namespace).of),
        gateways,
        NodeReader(cluster),
        BatchReader(sessions[0]),
    )
    runner = PassRunner(decide, observer, acts, LeaderState(leases), scope, schemas)
    reconciler = Reconciler(runner)
    demand = None
    if gateways is not None:
        demand = DemandWatch(
            sessions[1],
            store,
            gateways,
            reconciler.enqueue,
            lambda: reconciler.phase(time.monotonic()) is Phase.LEADING,
        )
    return _Parts(reconciler, store, writer, records, schemas, demand)


def _decide_config(config: OperatorConfig) -> DecideConfig:
    policy = ImagePullPolicy(config.image_pull_policy) if config.image_pull_policy else None
    gateway = GatewayConfig(
        config.gateway_image,
        config.gateway_envoy_image,
        config.gateway_cluster_role,
        config.gateway_replicas,
        image_pull_policy=policy,
        ids=IdSource(config.pool_ids),
        pod=config.gateway_pod,
    )
    return DecideConfig(
        default_runtime_image=config.default_runtime_image,
        image_pull_policy=policy,
        pool_ids=IdSource(config.pool_ids),
        peers=config.pool_network_policy,
        gateway=gateway if config.gateway_image else None,
        groups=config.groups,
    )


if __name__ == "__main__":
    main()
