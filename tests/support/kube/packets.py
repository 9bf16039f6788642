"""What the node's packet filter may do to pods; only our own node's can be asked."""

import subprocess
from collections.abc import Iterator, Sequence
from contextlib import ExitStack, contextmanager

from penstock_api.names import CLUSTER_PORT


@contextmanager
def dropped(chain: str, *match: str) -> Iterator[None]:
    """Drop what goes to any pod's control port through `chain` and matches, as long as it lasts."""
    with _rule(chain, *match, "-p", "tcp", "--dport", str(CLUSTER_PORT)):
        yield


@contextmanager
def not_ready(address: str) -> Iterator[None]:
    """Drop the kubelet's probes of one pod; its metrics and its clients' requests go on.

    Liveness is asked there too: after 25 s of it the container may be killed.
    """
    with dropped("OUTPUT", "-d", address):
        yield


@contextmanager
def cut(address: str) -> Iterator[None]:
    """Drop all that goes to a pod and comes from it, the kubelet's probes too, as long as it lasts."""
    pairs = (("FORWARD", "-d"), ("FORWARD", "-s"), ("OUTPUT", "-d"), ("INPUT", "-s"))
    with ExitStack() as held:
        for chain, end in pairs:
            held.enter_context(_rule(chain, end, address))
        yield


@contextmanager
def _rule(*match: str) -> Iterator[None]:
    rule: Sequence[str] = [*match, "-j", "DROP"]
    subprocess.run(["iptables", "-I", *rule], check=True)
    try:
        yield
    finally:
        subprocess.run(["iptables", "-D", *rule], check=True)
