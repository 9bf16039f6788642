"""Errors of the gateway.

GatewayError
├── GatewayConfigError      a setting is missing, unknown or out of range
├── WatchError              a list or watch of the API server failed and is retried
│   └── VersionExpired      the watch's resourceVersion is too old: list again
└── EnvoyUnavailable        Envoy's admin interface does not answer
    └── EnvoyGone           nothing listens at its socket: Envoy has ended, or has not begun
"""


class GatewayError(Exception):
    """Base of all errors of the gateway."""


class GatewayConfigError(GatewayError):
    """A setting is missing, unknown or out of range; the message names it."""


class WatchError(GatewayError):
    """A request to the API server failed; the objects already read stay in force."""


class VersionExpired(WatchError):
    """The API server no longer has the resourceVersion of the watch (410)."""


class EnvoyUnavailable(GatewayError):
    """Envoy's admin interface does not answer."""


class EnvoyGone(EnvoyUnavailable):
    """Nothing listens at the socket of Envoy's admin interface."""
