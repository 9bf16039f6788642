"""Leader state: the Leases that this process holds, and the signing keys that it read while leading."""

from collections.abc import Iterable, Mapping
from dataclasses import dataclass

from penstock_operator.act.signing_key import SigningKeys
from penstock_operator.kube.namespace_leases import Leases
from penstock_operator.net.tokens import Signer

KEYS_SECONDS = 3600.0
"""Interval between reads of the signing keys, which also rotate old ones."""


@dataclass(slots=True)
class LeaderState:
    """The Leases, the signing keys, and the namespaces led at the last check. Times are monotonic seconds."""

    leases: Leases
    _keys: SigningKeys | None = None
    _keys_read_at: float = 0.0
    _namespaces: frozenset[str] = frozenset()

    def leads(self, now: float) -> bool:
        """Return whether passes may run: the installation's Lease is held and the signing keys are read."""
        return self._keys is not None and self.leases.valid(now)

    def leads_in(self, namespace: str) -> bool:
        """Return whether this process may write in a namespace."""
        return self.leases.valid_in(namespace)

    def transitions(self, namespaces: Iterable[str]) -> dict[str, int]:
        """Return `leaseTransitions` of the Lease that governs each namespace."""
        return {name: self.leases.transitions_in(name) for name in namespaces}

    def keys_due(self, now: float) -> bool:
        """Return whether to read the signing keys: this process leads and has none, or old ones."""
        if not self.leases.valid(now):
            return False
        return self._keys is None or now - self._keys_read_at >= KEYS_SECONDS

    def set_keys(self, keys: SigningKeys, now: float) -> bool:
        """Store the signing keys; return whether this process had none, so that its leader term begins."""
        begins = self._keys is None
        self._keys, self._keys_read_at = keys, now
        return begins

    def refresh(self, now: float) -> frozenset[str]:
        """Drop the keys if the Lease is lost; return the namespaces whose Lease was acquired since the last call."""
        if not self.leases.valid(now):
            self._keys = None
        before, self._namespaces = self._namespaces, self.leases.led()
        return self._namespaces - before

    def signer(self, unix_now: float) -> Signer | None:
        """Return the key that signs calls to pods; None while this process does not lead."""
        return None if self._keys is None else self._keys.signer(unix_now)

    def public_keys(self) -> Mapping[str, str]:
        """Return the public keys for the pods' settings, by key id."""
        return {} if self._keys is None else self._keys.public_keys()
