"""Wiring: settings, connections, leadership, the watch and the pass; all of it ends together.

How often Python looks for reference cycles: seldom, in a process whose state is thousands of small frozen values.
"""

import asyncio
import gc
import logging
import os
import sys
import threading
import time
from contextlib import AsyncExitStack
from pathlib import Path

from penstock_api.certificates import CertificateUnusable, ServerCertificate
from penstock_api.types.container import ImagePullPolicy
from penstock_operator import health
from penstock_operator.act.children import Children
from penstock_operator.act.events import Events
from penstock_operator.act.executor import PoolActs
from penstock_operator.act.rate_limit import TokenBucket, WriteBudget
from penstock_operator.act.settings_records import Records
from penstock_operator.act.status import Statuses
from penstock_operator.act.writer import Writer
from penstock_operator.config import OperatorConfig, metrics_server
from penstock_operator.decide.config import DecideConfig
from penstock_operator.errors import OperatorConfigError
from penstock_operator.kube import kinds
from penstock_operator.kube.client import ApiClient, connect
from penstock_operator.kube.namespace_leases import Leases
from penstock_operator.kube.scope import Scope, scope_of
from penstock_operator.net import http
from penstock_operator.net.tls import PodTrust
from penstock_operator.observe.cluster.absence import Confirmations
from penstock_operator.observe.cluster.cache import ObjectStore
from penstock_operator.observe.cluster.crd_skew import ServedSchemas
from penstock_operator.observe.cluster.relist import Resync
from penstock_operator.observe.cluster.watches import Watches
from penstock_operator.observe.observer import Observer
from penstock_operator.observe.signals.credentials import CredentialsCache
from penstock_operator.observe.signals.shared_queries import SharedQueries
from penstock_operator.periodic import (
    keep_compared,
    keep_keys,
    keep_swept,
    keep_synced,
    keep_trusted,
)
from penstock_operator.reconcile_state import ReconcileState
from penstock_operator.reconciler import Reconciler
from penstock_operator.telemetry import logs

log = logging.getLogger("penstock_operator")

ENDING_SECONDS = 10.0
"""For tasks to end in, after everything that is ours has."""


def main() -> None:
    """Run the operator until a signal ends it."""
    try:
        config = OperatorConfig.from_env(os.environ)
    except OperatorConfigError as error:
        sys.exit(f"penstock-operator: {error}")
    settle()
    logs.set_up(config.log_format, config.log_level)
    with asyncio.Runner() as runner:
        said = _ended(runner, config)
        _must_end(code=1 if said else 0)
    sys.exit(said)


def _ended(runner: asyncio.Runner, config: OperatorConfig) -> str | int | None:
    """Return what is said at the end; None where a signal ended it."""
    try:
        runner.run(run(config))
    except OperatorConfigError as error:
        return f"penstock-operator: {error}"
    except Exception:
        log.exception("the operator ends")
        return 1
    return None


def _must_end(code: int) -> None:
    """End the process even if a task that is told to end does not: kopf's may wait for ever (seen with 5,000 pools)."""
    watchdog = threading.Timer(ENDING_SECONDS, os._exit, (code,))
    watchdog.daemon = True
    watchdog.start()


async def run(config: OperatorConfig) -> None:
    """Run everything; return after SIGTERM or SIGINT.

    Raises:
        ConfigError: there is no way to the API server.
        Exception: whatever ended a part that must not end, for one a 403 on a watched kind.
    """
    async with AsyncExitStack() as stack:
        configuration = await connect()
        cluster = ApiClient(configuration)
        stack.push_async_callback(cluster.close)
        scope = await scope_of(config, cluster)
        own, served = config.namespace, scope.namespaces or ()
        leadership = Leases.of(configuration, own, config.pod_name, served)
        trust, certificate = _trusted(config)
        operation, writer = await _operation(stack, config, cluster, (leadership, scope), trust)
        store = operation.observer.store
        resync = Resync(cluster, store, operation.enqueue, scope)
        watches = Watches(scope, store, resync, operation.enqueue, config.pod_name)
        runner = await health.serve(
            operation, config.port, certificate.context if certificate is not None else None
        )
        stack.push_async_callback(runner.cleanup)
        stack.callback(leadership.stop)
        leadership.start()
        log.info("watching", extra=logs.fields(namespace=config.namespace))
        parts = [
            asyncio.create_task(operation.run(), name="pass"),
            asyncio.create_task(keep_synced(operation, resync), name="resync"),
            asyncio.create_task(keep_keys(operation, writer, config.namespace), name="keys"),
            asyncio.create_task(keep_swept(operation), name="sweep"),
            asyncio.create_task(keep_compared(operation), name="schemas"),
            asyncio.create_task(keep_trusted(trust, certificate), name="certificates"),
        ]
        await _until_any_ends(asyncio.create_task(watches.run(), name="watch"), parts)


def _trusted(config: OperatorConfig) -> tuple[PodTrust, ServerCertificate | None]:
    trust = PodTrust(Path(config.pod_ca_file) if config.pod_ca_file else None)
    try:
        return trust, ServerCertificate(Path(config.tls_folder)) if config.tls_folder else None
    except CertificateUnusable as error:
        raise OperatorConfigError(f"PENSTOCK_TLS_FOLDER: {error}") from error


async def _until_any_ends(watch: asyncio.Task[None], parts: list[asyncio.Task[None]]) -> None:
    done, _ = await asyncio.wait([watch, *parts], return_when=asyncio.FIRST_COMPLETED)
    for part in parts:
        part.cancel()
    await asyncio.gather(*parts, return_exceptions=True)
    if not watch.done():
        watch.cancel()
        await asyncio.gather(watch, return_exceptions=True)
    for one in done:
        if not one.cancelled():
            one.result()


async def _operation(
    stack: AsyncExitStack,
    config: OperatorConfig,
    cluster: ApiClient,
    reach: tuple[Leases, Scope],
    trust: PodTrust,
) -> tuple[Reconciler, Writer]:
    leadership, scope = reach
    session, to_pods = http.new_session(), http.new_session(trust.context)
    stack.push_async_callback(session.close)
    stack.push_async_callback(to_pods.close)
    store = ObjectStore(own_namespace=config.namespace)
    budget = WriteBudget(TokenBucket(updated=time.monotonic()), time.monotonic)
    writer = Writer(cluster, budget, leadership.valid_in)
    records = Records(writer, store)
    schemas = ServedSchemas(cluster)
    statuses = Statuses(writer, store, schemas)
    acts = PoolActs(Children(writer, store), statuses, Events(writer), records)
    decide = DecideConfig(
        default_runtime_image=config.default_runtime_image,
        image_pull_policy=ImagePullPolicy(config.image_pull_policy)
        if config.image_pull_policy
        else None,
        peers=config.pool_network_policy,
    )
    named = kinds.NAMED_CHILDREN if decide.peers is None else kinds.GUARDED_CHILDREN
    confirmations = Confirmations(cluster, store, named)
    rounds = SharedQueries(CredentialsCache(cluster, config.namespace).of)
    server = metrics_server(config)
    observer = Observer(store, confirmations, session, ReconcileState(), server, to_pods, rounds)
    return Reconciler(decide, observer, acts, leadership, scope, schemas), writer


YOUNG, MIDDLE, OLD = 50_000, 20, 100
"""Every tick makes each pool's state anew. At Python's own 700 allocations a look, the looking costs up to as much as the
decisions do (measured with 600 pools: 2.7 to 4.6 ms a pool, and 1.6 to 2.3 with these); what is dropped is freed by its
count all the same, cycles are few."""


def settle() -> None:
    """Set the thresholds of the collector for the life of the process."""
    gc.set_threshold(YOUNG, MIDDLE, OLD)


if __name__ == "__main__":
    main()
