"""Envoy's command line in a gateway's pod, which the operator writes into the pod and the gateway's tests run."""

from typing import Final

SOCKET_FOLDER: Final = "/run/penstock"
"""Folder that the gateway's containers share: sockets and Envoy's bootstrap."""
BOOTSTRAP_FILE: Final = "envoy.json"
LOG_FORMAT: Final = '{"time": "%Y-%m-%dT%T.%e", "level": "%l", "logger": "%n", "message": "%j"}'


def envoy_arguments(folder: str, drain_seconds: float) -> tuple[str, ...]:
    """Return the arguments of Envoy's program.

    A listener that is removed, or drained, closes its connections after their requests and has `drain_seconds` to end.
    """
    return (
        "--config-path",
        f"{folder}/{BOOTSTRAP_FILE}",
        "--disable-hot-restart",
        "--drain-strategy",
        "immediate",
        "--drain-time-s",
        str(round(drain_seconds)),
        "--log-format",
        LOG_FORMAT,
    )
