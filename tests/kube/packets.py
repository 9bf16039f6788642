"""What the node's packet filter may do to a control port; only our own node's can be asked."""

import subprocess
from collections.abc import Iterator
from contextlib import contextmanager

from penstock_api.names import CLUSTER_PORT


@contextmanager
def dropped(chain: str, *match: str) -> Iterator[None]:
    """Drop what goes to any pod's control port through `chain` and matches, as long as it lasts."""
    rule = [chain, *match, "-p", "tcp", "--dport", str(CLUSTER_PORT), "-j", "DROP"]
    subprocess.run(["iptables", "-I", *rule], check=True)
    try:
        yield
    finally:
        subprocess.run(["iptables", "-D", *rule], check=True)
