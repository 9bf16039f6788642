"""The two slow rounds beside the pass: the store against the lists, and the signing keys."""

import asyncio
import logging
import time

from penstock_operator.act.signing_key import load_keys
from penstock_operator.act.writer import Writer
from penstock_operator.errors import ClusterError, NotLeading
from penstock_operator.observe.resync import Resync
from penstock_operator.operate import Operation

log = logging.getLogger(__name__)

TURN_SECONDS = 0.5
KEYS_SECONDS = 3600.0
"""How often the age of the signing key is looked at."""


async def keep_synced(operation: Operation, resync: Resync) -> None:
    """Let the pass begin when the store is complete, then keep it free of ghosts."""
    while True:
        try:
            await resync.round(time.monotonic())
        except ClusterError as error:
            log.warning("the store could not be compared with the cluster: %s", error)
        if resync.complete and not operation.ready:
            log.info("%d pools seen", len(operation.store.pools))
            operation.ready = True
            operation.wake(None)
        await asyncio.sleep(TURN_SECONDS)


async def keep_keys(operation: Operation, writer: Writer, namespace: str) -> None:
    """Read the signing keys whenever this process begins to lead, and rotate them while it does.

    Whatever another leader decided meanwhile is not known here: memories are dropped with the Lease.
    """
    read_at: float | None = None
    while True:
        now = time.monotonic()
        if not operation.leadership.valid(now):
            if operation.keys is not None:
                operation.keys, read_at = None, None
                operation.memory.clear()
        elif read_at is None or now - read_at >= KEYS_SECONDS:
            try:
                operation.keys, read_at = await load_keys(writer, namespace, time.time()), now
                operation.wake(None)
            except (ClusterError, NotLeading) as error:
                log.warning("the signing keys could not be read: %s", error)
        await asyncio.sleep(TURN_SECONDS)
