"""The slow rounds beside the pass: the store against the lists, the signing keys, the CRDs, records of pools that are gone."""

import asyncio
import logging
import time

from penstock_api.certificates import CertificateUnusable, ServerCertificate
from penstock_operator.act.signing_key import load_keys
from penstock_operator.act.writer import Writer
from penstock_operator.errors import (
    ClusterError,
    NotLeading,
    ObjectNotFound,
    OperatorConfigError,
    Rejected,
)
from penstock_operator.net.tls import PodTrust
from penstock_operator.observe.cluster.relist import Resync
from penstock_operator.reconciler import Reconciler

log = logging.getLogger(__name__)

TURN_SECONDS = 0.5
AFTER_FAILURE_SECONDS = 5.0
REMEDY = "install the chart's CRDs (crds.install) and its Roles (rbac.create), both of this operator's version"
SWEEP_SECONDS = 300.0
SCHEMAS_SECONDS = 60.0
"""How often the CRDs are compared with this operator's own: they are upgraded beside it."""
CERTIFICATES_SECONDS = 10.0
KEYS_SECONDS = 3600.0
"""How often the age of the signing key is looked at."""


async def keep_synced(operation: Reconciler, resync: Resync) -> None:
    """Let the pass begin when the store is complete, then keep it free of ghosts.

    Raises:
        ConfigError: a kind does not exist, or this operator may not list it.
    """
    while True:
        try:
            await resync.round(time.monotonic())
        except (Rejected, ObjectNotFound) as error:
            if not resync.complete:
                raise OperatorConfigError(f"{error}: {REMEDY}") from error
            log.warning("the store could not be compared with the cluster: %s", error)
        except ClusterError as error:
            log.warning("the store could not be compared with the cluster: %s", error)
            await asyncio.sleep(AFTER_FAILURE_SECONDS)
        if resync.complete and not operation.ready:
            await operation.schemas.refresh()
            log.info("%d pools seen", len(operation.observer.store.pools))
            operation.ready = True
            operation.enqueue(None)
        await asyncio.sleep(TURN_SECONDS)


async def keep_keys(operation: Reconciler, writer: Writer, namespace: str) -> None:
    """Read the signing keys whenever this process begins to lead, and rotate them while it does.

    Whatever another leader decided meanwhile is not known here: memories are dropped with the Lease.
    """
    read_at: float | None = None
    led: frozenset[str] = frozenset()
    while True:
        now = time.monotonic()
        before, led = led, operation.leadership.led()
        if led - before:
            operation.adopt_namespaces(led - before)
        if not operation.leadership.valid(now):
            operation.keys, read_at = None, None
        elif read_at is None or now - read_at >= KEYS_SECONDS:
            try:
                keys = await load_keys(writer, namespace, time.time())
                if read_at is None:
                    operation.reset()
                operation.keys, read_at = keys, now
                operation.enqueue(None)
            except (ClusterError, NotLeading) as error:
                log.warning("the signing keys could not be read: %s", error)
        await asyncio.sleep(TURN_SECONDS)


async def keep_trusted(trust: PodTrust, certificate: ServerCertificate | None) -> None:
    """Take renewed certificates and authorities into force; what cannot be used is told and not taken."""
    while True:
        await asyncio.sleep(CERTIFICATES_SECONDS)
        try:
            trust.refresh()
            if certificate is not None and certificate.refresh():
                log.info("a renewed certificate is in force")
        except (OperatorConfigError, CertificateUnusable) as error:
            log.warning("what was trusted and served with before stays in force: %s", error)


async def keep_swept(operation: Reconciler) -> None:
    """Drop what is kept of pools that are gone: at once where that was seen, else now and then."""
    while True:
        await asyncio.sleep(TURN_SECONDS)
        now = time.monotonic()
        if not operation.ready or now < operation.sweep_at or not operation.leadership.valid(now):
            continue
        if operation.observer.store.partial:
            continue  # a pool that cannot be seen is not gone
        operation.sweep_at = now + SWEEP_SECONDS
        try:
            await operation.acts.records.sweep()
        except (ObjectNotFound, NotLeading):
            continue
        except ClusterError as error:
            log.warning("the records of pools that are gone stay for now: %s", error)


async def keep_compared(operation: Reconciler) -> None:
    """Notice CRDs that were upgraded, or taken back, and let every pool say so."""
    while True:
        await asyncio.sleep(SCHEMAS_SECONDS)
        if await operation.schemas.refresh():
            operation.enqueue(None)
