"""Leader election with a coordination/v1 Lease, renewed from a dedicated thread on a monotonic clock.

The thread shares nothing with the event loop, so a long pass cannot lose the Lease. `valid` is checked before each
write and counts from the time at which the last renewal was *sent*, so that a process that was paused for longer than
the deadline writes nothing when it resumes. Durations are those of client-go: 15, 10 and 2 s.
"""

import http.client
import logging
import threading
import time
import uuid
from collections.abc import Callable
from dataclasses import dataclass
from datetime import UTC, datetime

from penstock_operator.errors import ClusterError, Conflict, ObjectNotFound
from penstock_operator.kube.lease_client import CALL_SECONDS, Json, LeaseClient

log = logging.getLogger(__name__)

DURATION_SECONDS = 15.0
"""Time without a renewal after which another process may acquire the Lease."""
DEADLINE_SECONDS = 10.0
"""Time without a renewal after which the holder stops writing."""
RETRY_SECONDS = 2.0


@dataclass(frozen=True, slots=True)
class ObservedLease:
    """A Lease as last read; `unchanged_since` is in monotonic seconds of this process."""

    holder: str
    transitions: int
    duration_seconds: float
    version: str
    unchanged_since: float


def may_take(
    lease: ObservedLease, identity: str, now: float, inherits_from: str | None = None
) -> bool:
    """Return whether `identity` may acquire the Lease: it holds it already, or it is free, inherited or expired.

    `inherits_from` is the prefix of holders that are known to have stopped. Expiry uses the local clock only: the times
    in the Lease are from another machine's clock.
    """
    free = lease.holder in ("", identity)
    inherited = inherits_from is not None and lease.holder.startswith(inherits_from)
    return free or inherited or now >= lease.unchanged_since + lease.duration_seconds


def next_transitions(lease: ObservedLease, identity: str) -> int:
    """Return `leaseTransitions` after `identity` acquires the Lease: one more if the holder changes."""
    return lease.transitions + (0 if lease.holder == identity else 1)


def still_valid(renewed_at: float | None, now: float) -> bool:
    """Return whether a renewal sent at `renewed_at` allows a write at `now` (monotonic seconds)."""
    return renewed_at is not None and now < renewed_at + DEADLINE_SECONDS


class Leadership:
    """Competes for one Lease from its own thread."""

    def __init__(
        self,
        client: LeaseClient,
        holder: str,
        may_compete: Callable[[], bool] = lambda: True,
        inherits_from: str | None = None,
    ) -> None:
        """While `may_compete` is False, the Lease is left to others, and released if this process holds it.

        `inherits_from` is the prefix of holders that have stopped once `may_compete` is True.
        """
        self._client = client
        self._may_compete = may_compete
        self._inherits_from = inherits_from
        self._identity = f"{holder}_{uuid.uuid4().hex[:8]}"
        self._stopping = threading.Event()
        self._thread = threading.Thread(target=self._run, name="lease", daemon=True)
        self._renewed_at: float | None = None
        self._transitions = 0
        self._observed: ObservedLease | None = None
        self._failure = ""

    def start(self) -> None:
        """Start competing for the Lease."""
        self._thread.start()

    def request_stop(self) -> None:
        """Signal the thread to stop, without waiting for it."""
        self._stopping.set()

    def stop(self) -> None:
        """Stop renewing and release the Lease, so that the next holder need not wait for its expiry."""
        self.request_stop()
        self._thread.join(timeout=2 * CALL_SECONDS)

    def valid(self, now: float | None = None) -> bool:
        """Return whether writes are allowed at `now` (monotonic seconds; None: now)."""
        return still_valid(self._renewed_at, time.monotonic() if now is None else now)

    @property
    def transitions(self) -> int:
        """`leaseTransitions` when this process last acquired the Lease."""
        return self._transitions

    def _run(self) -> None:
        while not self._stopping.is_set():
            was = self.valid()
            try:
                if self._may_compete():
                    self._compete()
                else:
                    self._standby()
                self._failure = ""
            except (ClusterError, OSError, http.client.HTTPException, ValueError) as error:
                repeated = str(error) == self._failure
                self._failure = str(error)
                log.log(
                    logging.DEBUG if repeated else logging.WARNING,
                    "failed to renew Lease %s: %s",
                    self._client.full_name,
                    error,
                )
            if self.valid() != was:
                text = (
                    "acquired Lease %s: leading" if self.valid() else "lost Lease %s: standing by"
                )
                log.info(text, self._client.full_name)
            self._stopping.wait(RETRY_SECONDS)
        self._release()

    def _compete(self) -> None:
        started = time.monotonic()
        lease = self._observe(started)
        if lease is not None and not may_take(lease, self._identity, started, self._inherits_from):
            self._renewed_at = None
            return
        transitions = 0 if lease is None else next_transitions(lease, self._identity)
        try:
            self._client.write(self._spec(transitions), lease.version if lease else None)
        except Conflict:
            return  # another process was first; the last renewal stays valid until its deadline
        self._transitions, self._renewed_at = transitions, started

    def _standby(self) -> None:
        """Release the Lease and observe its expiry, so that no time is lost once this process may compete."""
        self._release()
        self._observe(time.monotonic())

    def _observe(self, now: float) -> ObservedLease | None:
        try:
            lease = self._client.read()
        except ObjectNotFound:
            return None
        version = lease["metadata"]["resourceVersion"]
        if self._observed is None or self._observed.version != version:
            spec = lease.get("spec") or {}
            self._observed = ObservedLease(
                holder=spec.get("holderIdentity") or "",
                transitions=spec.get("leaseTransitions") or 0,
                duration_seconds=float(spec.get("leaseDurationSeconds") or DURATION_SECONDS),
                version=version,
                unchanged_since=now,
            )
        return self._observed

    def _spec(self, transitions: int, holder: str | None = None) -> Json:
        now = datetime.now(UTC).isoformat(timespec="microseconds").replace("+00:00", "Z")
        return {
            "holderIdentity": self._identity if holder is None else holder,
            "leaseDurationSeconds": int(DURATION_SECONDS),
            "acquireTime": now,
            "renewTime": now,
            "leaseTransitions": transitions,
        }

    def _release(self) -> None:
        if not self.valid():
            return
        self._renewed_at = None
        try:
            lease = self._observe(time.monotonic())
            if lease is not None and lease.holder == self._identity:
                self._client.write(self._spec(lease.transitions, holder=""), lease.version)
        except (ClusterError, OSError, http.client.HTTPException, ValueError) as error:
            log.warning("failed to release the Lease: %s", error)
