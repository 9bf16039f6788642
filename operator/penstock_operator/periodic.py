"""Periodic tasks next to the reconcile loop: resync, signing keys, certificates, CRD schemas and settings records."""

import asyncio
import logging
import time

from penstock_api.certificates import CertificateUnusable, ServerCertificate
from penstock_operator.act.settings_records import SettingsRecords
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
from penstock_operator.observe.cluster.crd_skew import ServedSchemas
from penstock_operator.observe.cluster.relist import Resync
from penstock_operator.reconcile_state import BackOffs
from penstock_operator.reconciler.loop import Phase, Reconciler

log = logging.getLogger(__name__)

TURN_SECONDS = 0.5
AFTER_FAILURE_SECONDS = 5.0
REMEDY = "install the chart's CRDs (crds.install) and its Roles (rbac.create), both of this operator's version"
SCHEMAS_SECONDS = 60.0
"""Interval between comparisons of the served CRDs with this operator's own: they are upgraded separately."""
CERTIFICATES_SECONDS = 10.0


async def sync_store(reconciler: Reconciler, resync: Resync, schemas: ServedSchemas) -> None:
    """Start the reconciler when the object store is complete, then keep the store free of stale objects.

    Raises:
        OperatorConfigError: a kind does not exist, or this operator may not list it.
    """
    while True:
        try:
            await resync.round(time.monotonic())
        except (Rejected, ObjectNotFound) as error:
            if not resync.complete:
                raise OperatorConfigError(f"{error}: {REMEDY}") from error
            log.warning("failed to compare the object store with the cluster: %s", error)
        except ClusterError as error:
            log.warning("failed to compare the object store with the cluster: %s", error)
            await asyncio.sleep(AFTER_FAILURE_SECONDS)
        if resync.complete and not reconciler.synced:
            await schemas.refresh()
            log.info("synced: %d pools", len(resync.store.pools))
            reconciler.mark_synced()
        await asyncio.sleep(TURN_SECONDS)


async def refresh_keys(reconciler: Reconciler, writer: Writer, namespace: str) -> None:
    """Watch the Leases; read the signing keys when this process becomes the leader, and rotate them while it leads."""
    back_offs = BackOffs()
    while True:
        now = time.monotonic()
        reconciler.check_leases(now)
        if reconciler.leader.keys_due(now) and back_offs.due(namespace, now):
            try:
                reconciler.lead(await load_keys(writer, namespace, time.time()), now)
            except (ClusterError, NotLeading) as error:
                if isinstance(error, Rejected | ObjectNotFound):  # others pass soon
                    back_offs.extend(namespace, now)
                log.warning("failed to read the signing keys: %s", error)
            else:
                back_offs.end(namespace)
        await asyncio.sleep(TURN_SECONDS)


async def reload_certificates(trust: PodTrust, certificate: ServerCertificate | None) -> None:
    """Load renewed certificates and CAs; unusable files are logged and the loaded ones stay in use."""
    while True:
        await asyncio.sleep(CERTIFICATES_SECONDS)
        try:
            trust.refresh()
            if certificate is not None and certificate.refresh():
                log.info("loaded a renewed certificate")
        except (OperatorConfigError, CertificateUnusable) as error:
            log.warning("renewed certificates are unusable; the loaded ones stay in use: %s", error)


async def sweep_records(reconciler: Reconciler, records: SettingsRecords) -> None:
    """Delete the settings records of deleted pools: soon after a deletion was seen, otherwise every few minutes."""
    while True:
        await asyncio.sleep(TURN_SECONDS)
        now = time.monotonic()
        if reconciler.phase(now) is not Phase.LEADING or not records.sweep_due(now):
            continue
        try:
            await records.sweep(now)
        except (ObjectNotFound, NotLeading):
            continue
        except ClusterError as error:
            log.warning("failed to delete the settings records of deleted pools: %s", error)


async def compare_schemas(reconciler: Reconciler, schemas: ServedSchemas) -> None:
    """Enqueue every pool when the served CRDs change, so that their statuses report it."""
    while True:
        await asyncio.sleep(SCHEMAS_SECONDS)
        if await schemas.refresh():
            reconciler.enqueue(None)
