"""Leadership by a coordination/v1 Lease, renewed from its own thread on a monotonic clock.

The thread shares nothing with the event loop, so a long pass cannot lose the Lease; `valid` is asked before
each write and answers from the moment the last renewal was *sent*, so that a process that was stopped for
longer than the deadline writes nothing when it wakes (as client-go's leaderelection: 15/10/2 s).
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
"""After this long without a renewal others may take the Lease."""
DEADLINE_SECONDS = 10.0
"""After this long without a renewal the holder stops writing."""
RETRY_SECONDS = 2.0


@dataclass(frozen=True, slots=True)
class ObservedLease:
    """What a Lease object says, and since when (monotonic seconds) it has said so, as seen from here."""

    holder: str
    transitions: int
    duration_seconds: float
    version: str
    unchanged_since: float


def may_take(held: ObservedLease, identity: str, now: float, heir_of: str | None = None) -> bool:
    """Return whether `identity` may write itself into the Lease: its own, free, inherited, or run out.

    `heir_of` begins the identities of holders that are known to act no longer. Only the local clock is used: the
    holder's times are another machine's.
    """
    free = held.holder in ("", identity)
    inherited = heir_of is not None and held.holder.startswith(heir_of)
    return free or inherited or now >= held.unchanged_since + held.duration_seconds


def next_transitions(held: ObservedLease, identity: str) -> int:
    """Return `leaseTransitions` after taking: one more for every change of holder."""
    return held.transitions + (0 if held.holder == identity else 1)


def still_valid(renewed_at: float | None, now: float) -> bool:
    """Return whether a renewal sent at `renewed_at` allows a write at `now` (monotonic seconds)."""
    return renewed_at is not None and now < renewed_at + DEADLINE_SECONDS


class Leadership:
    """Holds the Lease from a thread of its own."""

    def __init__(
        self,
        client: LeaseClient,
        holder: str,
        may_compete: Callable[[], bool] = lambda: True,
        heir_of: str | None = None,
    ) -> None:
        """`may_compete` False: the Lease is left to others, and given back if it is held.

        `heir_of` begins the identities of holders that act no longer once `may_compete` is True.
        """
        self._client = client
        self._may_compete = may_compete
        self._heir_of = heir_of
        self._identity = f"{holder}_{uuid.uuid4().hex[:8]}"
        self._stopping = threading.Event()
        self._thread = threading.Thread(target=self._run, name="lease", daemon=True)
        self._renewed_at: float | None = None
        self._transitions = 0
        self._held: ObservedLease | None = None
        self._failure = ""

    def start(self) -> None:
        """Begin to compete for the Lease."""
        self._thread.start()

    def tell_to_stop(self) -> None:
        """Let the thread stop by itself; `stop` waits for it."""
        self._stopping.set()

    def stop(self) -> None:
        """Stop renewing and give the Lease back, so that the next holder need not wait it out."""
        self.tell_to_stop()
        self._thread.join(timeout=2 * CALL_SECONDS)

    def valid(self, now: float | None = None) -> bool:
        """Return whether writes are allowed at `now` (monotonic seconds; None: this moment)."""
        return still_valid(self._renewed_at, time.monotonic() if now is None else now)

    @property
    def transitions(self) -> int:
        """`leaseTransitions` of the Lease as last held by us."""
        return self._transitions

    def _run(self) -> None:
        while not self._stopping.is_set():
            was = self.valid()
            try:
                if self._may_compete():
                    self._compete()
                else:
                    self._stand_aside()
                self._failure = ""
            except (ClusterError, OSError, http.client.HTTPException, ValueError) as error:
                again = str(error) == self._failure
                self._failure = str(error)
                log.log(
                    logging.DEBUG if again else logging.WARNING,
                    "the Lease %s could not be renewed: %s",
                    self._client.place,
                    error,
                )
            if self.valid() != was:
                log.info("%s %s", "leading" if self.valid() else "standing by", self._client.place)
            self._stopping.wait(RETRY_SECONDS)
        self._release()

    def _compete(self) -> None:
        started = time.monotonic()
        held = self._observe(started)
        if held is not None and not may_take(held, self._identity, started, self._heir_of):
            self._renewed_at = None
            return
        transitions = 0 if held is None else next_transitions(held, self._identity)
        try:
            self._client.write(self._spec(transitions), held.version if held else None)
        except Conflict:
            return  # another was faster; what was valid stays valid until its deadline
        self._transitions, self._renewed_at = transitions, started

    def _stand_aside(self) -> None:
        """Watch the Lease run out, so that once it may be competed for no time is lost."""
        self._release()
        self._observe(time.monotonic())

    def _observe(self, now: float) -> ObservedLease | None:
        try:
            lease = self._client.read()
        except ObjectNotFound:
            return None
        version = lease["metadata"]["resourceVersion"]
        if self._held is None or self._held.version != version:
            spec = lease.get("spec") or {}
            self._held = ObservedLease(
                holder=spec.get("holderIdentity") or "",
                transitions=spec.get("leaseTransitions") or 0,
                duration_seconds=float(spec.get("leaseDurationSeconds") or DURATION_SECONDS),
                version=version,
                unchanged_since=now,
            )
        return self._held

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
            held = self._observe(time.monotonic())
            if held is not None and held.holder == self._identity:
                self._client.write(self._spec(held.transitions, holder=""), held.version)
        except (ClusterError, OSError, http.client.HTTPException, ValueError) as error:
            log.warning("the Lease could not be given back: %s", error)
