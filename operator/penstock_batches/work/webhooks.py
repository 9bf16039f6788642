"""`Webhooks`: calls the URL of an infer request that has ended, until it answers with 2xx or a day is over.

A call is signed as standardwebhooks.com says. That it is due is in the request's record, so a kill repeats it at worst.
"""

import asyncio
import base64
import hashlib
import hmac
import logging
import math
import time
from collections import Counter, defaultdict, deque
from contextlib import suppress
from pathlib import Path
from typing import Final
from urllib.parse import urlsplit

import aiohttp
import msgspec
from msgspec.structs import replace

from penstock_api.settings import variable
from penstock_batches.errors import BatchesConfigError, StateConflict, StoreUnavailable
from penstock_batches.records import BatchJob
from penstock_batches.store.base import Store

log = logging.getLogger(__name__)

TIMEOUT: Final = aiohttp.ClientTimeout(total=10)
CLAIM_SECONDS = 15.0
"""Time in which no other replica calls the same webhook: more than a call takes."""
FIRST_RETRY_SECONDS: Final = 1.0
MAX_RETRY_SECONDS: Final = 600.0
GIVE_UP_SECONDS: Final = 86_400.0
MAX_CALLS: Final = 32
"""Calls at the same time."""
MAX_RECEIVER_CALLS: Final = 4
"""Calls of one receiver at the same time: one that does not answer leaves the others to other receivers."""
Receiver = tuple[str, str, int]
"""Tenant, host and port of a webhook."""


class Webhooks:
    """The calls of this process."""

    def __init__(self, store: Store, owner: str, secret_file: str) -> None:
        self._store = store
        self._owner = owner
        self._secret_file = secret_file
        self._calling: dict[str, asyncio.Task[None]] = {}
        self._waiting: dict[Receiver, deque[BatchJob]] = {}
        self._busy: Counter[Receiver] = Counter()
        """Calls in progress."""
        self._begun: dict[Receiver, float] = {}
        """Monotonic time of the last call."""
        self._failures: Counter[str] = Counter()
        self._due: dict[str, float] = {}
        """Monotonic time of the next call, after a failed one; infinite after an answered one."""
        self.calls: Counter[str] = Counter()
        """Calls by status, or Failed without one."""

    def check_secret(self) -> None:
        """Read the secret once. Blocks on the disk.

        Raises:
            BatchesConfigError: no webhook can be signed with it.
        """
        try:
            self._secret()
        except (OSError, ValueError) as error:
            name = variable("webhook_secret_file")
            message = f"{name} must have the secret as a text, or as whsec_ and base64 (`openssl rand -base64 32`): {error}"
            raise BatchesConfigError(message) from error

    def call(self, ended: list[BatchJob]) -> None:
        """Begin the calls that are due, as many as there may be; the others follow when these end."""
        known = {batch.id for batch in ended} | self._calling.keys()
        for gone in (self._due.keys() | self._failures.keys()) - known:
            self._due.pop(gone, None)
            self._failures.pop(gone, None)
        now = time.monotonic()
        waiting: dict[Receiver, deque[BatchJob]] = defaultdict(deque)
        receivers = {batch.id: _receiver(batch) for batch in ended}
        for batch in ended:
            if batch.id not in self._calling and now >= self._due.get(batch.id, 0.0):
                waiting[receivers[batch.id]].append(batch)
        self._waiting = waiting
        current = set(receivers.values())
        self._begun = {each: begun for each, begun in self._begun.items() if each in current}
        self._begin()

    def _begin(self) -> None:
        """Begin calls: next is the receiver with the fewest in progress, of several the one that was called longest ago."""
        while len(self._calling) < MAX_CALLS:
            free = [
                receiver
                for receiver, batches in self._waiting.items()
                if batches and self._busy[receiver] < MAX_RECEIVER_CALLS
            ]
            if not free:
                return
            receiver = min(free, key=lambda each: (self._busy[each], self._begun.get(each, 0.0)))
            batch = self._waiting[receiver].popleft()
            self._begun[receiver] = time.monotonic()
            self._busy[receiver] += 1
            self._calling[batch.id] = asyncio.create_task(self._call(batch, receiver))

    async def close(self) -> None:
        """Stop the calls; they are repeated."""
        self._waiting = {}
        for task in list(self._calling.values()):
            task.cancel()
            with suppress(asyncio.CancelledError):
                await task

    async def _claim(self, batch: BatchJob) -> bool:
        return await self._store.claim(batch.id, self._owner, CLAIM_SECONDS)

    async def _call(self, batch: BatchJob, receiver: Receiver) -> None:
        try:
            if not await self._claim(batch):  # another replica calls it
                return
            late = time.time() > _ended_at(batch) + GIVE_UP_SECONDS
            if late:
                log.warning("%s: its webhook was not answered for a day", batch.id)
            if late or await self._posted(batch):
                await self._store.write(replace(batch, webhook=""))
                self._due[batch.id] = math.inf  # a list of batches may be older than the write
        except StateConflict:
            log.info("%s: another replica called its webhook", batch.id)
        except StoreUnavailable as error:
            log.warning("%s: its webhook is called again: %s", batch.id, error)
        finally:
            self._calling.pop(batch.id, None)
            self._busy.subtract([receiver])
            self._busy += Counter()  # forgets receivers without a call
            self._begin()

    async def _posted(self, batch: BatchJob) -> bool:
        body = msgspec.json.encode(
            {
                "type": f"infer.{batch.status.value}",
                "data": {"id": batch.id, "location": f"{batch.endpoint}/{batch.id}"},
            }
        )
        try:
            headers = await asyncio.to_thread(self._headers, batch, body)
            async with (
                aiohttp.ClientSession(timeout=TIMEOUT) as session,
                session.post(
                    batch.webhook, data=body, headers=headers, allow_redirects=False
                ) as reply,
            ):
                status = str(reply.status)
        except (aiohttp.ClientError, OSError, TimeoutError, ValueError) as error:
            log.warning("%s: its webhook failed: %s", batch.id, error)
            status = "Failed"
        self.calls[status] += 1
        if status.startswith("2"):
            return True
        self._failures[batch.id] += 1
        backoff = FIRST_RETRY_SECONDS * 2 ** min(self._failures[batch.id] - 1, 16)
        self._due[batch.id] = time.monotonic() + min(backoff, MAX_RETRY_SECONDS)
        return False

    def _headers(self, batch: BatchJob, body: bytes) -> dict[str, str]:
        """Return the headers of a call. Blocks on the disk."""
        seconds = str(int(time.time()))
        headers = {
            "Content-Type": "application/json",
            "webhook-id": batch.id,
            "webhook-timestamp": seconds,
        }
        key = self._secret()
        if not key:
            return headers
        return {**headers, "webhook-signature": signature(key, batch.id, seconds, body)}

    def _secret(self) -> bytes:
        """Return the key of the signatures, empty without one; a secret that begins with `whsec_` is in base64, another a text."""
        if not self._secret_file:
            return b""
        secret = Path(self._secret_file).read_text(encoding="utf-8").strip()
        encoded = secret.removeprefix("whsec_")
        key = (
            secret.encode()
            if encoded == secret
            else base64.b64decode("".join(encoded.split()), validate=True)
        )
        if not key:
            raise ValueError("it is empty")
        return key


def signature(key: bytes, message_id: str, seconds: str, body: bytes) -> str:
    """Return the signature of a call."""
    signed = f"{message_id}.{seconds}.".encode() + body
    return "v1," + base64.b64encode(hmac.digest(key, signed, hashlib.sha256)).decode()


def _receiver(batch: BatchJob) -> Receiver:
    parts = urlsplit(batch.webhook)
    port = parts.port or (443 if parts.scheme == "https" else 80)
    return batch.tenant, parts.hostname or "", port


def _ended_at(batch: BatchJob) -> float:
    times = (batch.completed_at, batch.failed_at, batch.expired_at, batch.cancelled_at)
    return next((each for each in times if each is not None), batch.created_at)
