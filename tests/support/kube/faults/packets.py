"""Packet-filter rules that isolate pods on the project's own node."""

import subprocess
from collections.abc import Iterator, Sequence
from contextlib import ExitStack, contextmanager

from penstock_api.names import CLUSTER_PORT


@contextmanager
def dropped(chain: str, *match: str) -> Iterator[None]:
    """Drop packets to any pod's control port that pass `chain` and match, inside the context."""
    with _rule(chain, *match, "-p", "tcp", "--dport", str(CLUSTER_PORT)):
        yield


@contextmanager
def not_ready(address: str) -> Iterator[None]:
    """Drop the kubelet's probes of one pod, but not its metrics or its clients' requests.

    The liveness probe uses this port too: after 25 s the kubelet may kill the container.
    """
    with dropped("OUTPUT", "-d", address):
        yield


@contextmanager
def cut(address: str) -> Iterator[None]:
    """Drop all packets to and from a pod, including the kubelet's probes, inside the context."""
    pairs = (("FORWARD", "-d"), ("FORWARD", "-s"), ("OUTPUT", "-d"), ("INPUT", "-s"))
    with ExitStack() as rules:
        for chain, end in pairs:
            rules.enter_context(_rule(chain, end, address))
        yield


@contextmanager
def _rule(*match: str) -> Iterator[None]:
    rule: Sequence[str] = [*match, "-j", "DROP"]
    subprocess.run(["iptables", "-I", *rule], check=True)
    try:
        yield
    finally:
        subprocess.run(["iptables", "-D", *rule], check=True)
