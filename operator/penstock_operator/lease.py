"""Leadership by a coordination/v1 Lease, renewed from its own thread on a monotonic clock.

The thread shares nothing with the event loop, so a long pass cannot lose the Lease; `valid` is asked before
each write and answers from the moment the last renewal was *sent*, so that a process that was stopped for
longer than the deadline writes nothing when it wakes (as client-go's leaderelection: 15/10/2 s).
"""

import http.client
import json
import logging
import ssl
import threading
import time
import uuid
from collections.abc import Mapping
from dataclasses import dataclass
from datetime import UTC, datetime
from typing import Any
from urllib.parse import urlsplit

from kubernetes.aio.client.configuration import Configuration

from penstock_api import names
from penstock_operator.cluster import IN_CLUSTER_TOKEN, in_cluster
from penstock_operator.errors import ClusterError, Conflict, NotFound, cluster_error

log = logging.getLogger(__name__)

DURATION_SECONDS = 15.0
"""After this long without a renewal others may take the Lease."""
DEADLINE_SECONDS = 10.0
"""After this long without a renewal the holder stops writing."""
RETRY_SECONDS = 2.0
CALL_SECONDS = 5.0

Json = dict[str, Any]


@dataclass(frozen=True, slots=True)
class Held:
    """What a Lease object says, and since when (monotonic seconds) it has said so, as seen from here."""

    holder: str
    transitions: int
    duration_seconds: float
    version: str
    unchanged_since: float


def may_take(held: Held, identity: str, now: float) -> bool:
    """Return whether `identity` may write itself into the Lease: its own, free, or run out.

    Only the local clock is used: the holder's times are another machine's.
    """
    free = held.holder in ("", identity)
    return free or now >= held.unchanged_since + held.duration_seconds


def next_transitions(held: Held, identity: str) -> int:
    """Return `leaseTransitions` after taking: one more for every change of holder."""
    return held.transitions + (0 if held.holder == identity else 1)


def still_valid(renewed_at: float | None, now: float) -> bool:
    """Return whether a renewal sent at `renewed_at` allows a write at `now` (monotonic seconds)."""
    return renewed_at is not None and now < renewed_at + DEADLINE_SECONDS


class LeaseClient:
    """The Lease, read and written over a connection of its own for each call."""

    def __init__(self, configuration: Configuration, namespace: str) -> None:
        self._url = urlsplit(configuration.host)
        self._configuration = configuration
        self._path = f"/apis/coordination.k8s.io/v1/namespaces/{namespace}/leases"
        self._namespace = namespace

    def read(self) -> Json:
        """Return the Lease; raises `NotFound` and the other `ClusterError`s."""
        return self._call("GET", f"{self._path}/{names.LEASE_NAME}", None)

    def write(self, spec: Json, version: str | None) -> Json:
        """Create the Lease, or replace the one at `version`; raises `Conflict` when another was faster."""
        metadata = {"name": names.LEASE_NAME, "namespace": self._namespace}
        if version is not None:
            metadata["resourceVersion"] = version
        body = {
            "apiVersion": "coordination.k8s.io/v1",
            "kind": "Lease",
            "metadata": metadata,
            "spec": spec,
        }
        if version is None:
            return self._call("POST", self._path, body)
        return self._call("PUT", f"{self._path}/{names.LEASE_NAME}", body)

    def _call(self, method: str, path: str, body: Json | None) -> Json:
        connection = self._connection()
        try:
            content = None if body is None else json.dumps(body)
            connection.request(method, self._url.path.rstrip("/") + path, content, self._headers())
            answer = connection.getresponse()
            data = answer.read()
        finally:
            connection.close()
        if not 200 <= answer.status <= 299:
            raise cluster_error(answer.status, data)
        parsed: Json = json.loads(data)
        return parsed

    def _connection(self) -> http.client.HTTPConnection:
        host, port = self._url.hostname or "", self._url.port
        if self._url.scheme == "http":
            return http.client.HTTPConnection(host, port, timeout=CALL_SECONDS)
        config = self._configuration
        context = ssl.create_default_context(cafile=config.ssl_ca_cert)
        if config.cert_file:
            context.load_cert_chain(config.cert_file, config.key_file)
        if not config.verify_ssl:
            context.check_hostname, context.verify_mode = False, ssl.CERT_NONE
        return http.client.HTTPSConnection(host, port, timeout=CALL_SECONDS, context=context)

    def _headers(self) -> Mapping[str, str]:
        headers = {"Content-Type": "application/json", "User-Agent": "penstock-operator"}
        if in_cluster():
            headers["Authorization"] = f"Bearer {IN_CLUSTER_TOKEN.read_text().strip()}"
        elif token := self._configuration.api_key.get("BearerToken"):
            headers["Authorization"] = token
        return headers


class Leadership:
    """Holds the Lease from a thread of its own."""

    def __init__(self, client: LeaseClient, holder: str) -> None:
        self._client = client
        self._identity = f"{holder}_{uuid.uuid4().hex[:8]}"
        self._stopping = threading.Event()
        self._thread = threading.Thread(target=self._run, name="lease", daemon=True)
        self._renewed_at: float | None = None
        self._transitions = 0
        self._held: Held | None = None

    def start(self) -> None:
        """Begin to compete for the Lease."""
        self._thread.start()

    def stop(self) -> None:
        """Stop renewing and give the Lease back, so that the next holder need not wait it out."""
        self._stopping.set()
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
                self._compete()
            except (ClusterError, OSError, http.client.HTTPException, ValueError) as error:
                log.warning("the Lease could not be renewed: %s", error)
            if self.valid() != was:
                log.info("leading" if self.valid() else "standing by")
            self._stopping.wait(RETRY_SECONDS)
        self._release()

    def _compete(self) -> None:
        started = time.monotonic()
        held = self._observe(started)
        if held is not None and not may_take(held, self._identity, started):
            self._renewed_at = None
            return
        transitions = 0 if held is None else next_transitions(held, self._identity)
        try:
            self._client.write(self._spec(transitions), held.version if held else None)
        except Conflict:
            return  # another was faster; what was valid stays valid until its deadline
        self._transitions, self._renewed_at = transitions, started

    def _observe(self, now: float) -> Held | None:
        try:
            lease = self._client.read()
        except NotFound:
            return None
        version = lease["metadata"]["resourceVersion"]
        if self._held is None or self._held.version != version:
            spec = lease.get("spec") or {}
            self._held = Held(
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
