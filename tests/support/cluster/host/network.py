"""The pods' network on this machine: the bridge, the kernel's switches, the packet rules."""

import itertools
import json
import re
from pathlib import Path

from tests.support.cluster import settings
from tests.support.cluster.commands import output, quietly

SWITCHES = ("ipv4/ip_forward", "bridge/bridge-nf-call-iptables")
CHAINS = re.compile(r"^(KUBE-|CNI-|PENSTOCK-)")
TABLES = ("filter", "nat", "mangle")
FAMILIES = ("iptables", "ip6tables")


def holder() -> str | None:
    """Return the cache whose cluster has the bridge, or None where there is no bridge."""
    listed = output(["ip", "-json", "link", "show", "type", "bridge"])
    for link in json.loads(listed or "[]"):
        if link.get("ifname") == settings.BRIDGE:
            return str(link.get("ifalias", ""))
    return None


def raise_bridge(owner: Path) -> None:
    """Create the bridge, in its owner's name, before anything binds to its address; switch forwarding on."""
    quietly(["ip", "link", "add", settings.BRIDGE, "type", "bridge"])
    quietly(["ip", "addr", "add", f"{settings.NODE_ADDRESS}/24", "dev", settings.BRIDGE])
    output(["ip", "link", "set", settings.BRIDGE, "alias", str(owner)])
    output(["ip", "link", "set", settings.BRIDGE, "up"])
    # A packet for a Service that is gone dies on the bridge; it never leaves by the default route.
    output(["ip", "route", "replace", settings.SERVICE_SUBNET, "dev", settings.BRIDGE])
    for switch in SWITCHES:
        file = Path("/proc/sys/net") / switch
        if not file.exists():
            quietly(["modprobe", "br_netfilter"])
        if (
            file.exists()
        ):  # bridged packets pass the rules anyhow where the kernel has no such module
            file.write_text("1")


def drop_bridge() -> None:
    """Remove the bridge and what pods still hang on it."""
    listed = output(["ip", "-json", "link", "show", "type", "veth"])
    for link in json.loads(listed or "[]"):
        if link.get("master") == settings.BRIDGE:
            quietly(["ip", "link", "delete", link["ifname"]])
    quietly(["ip", "link", "delete", settings.BRIDGE])


def drop_rules() -> None:
    """Remove the chains of kube-proxy, the kubelet, the CNI plugins and the tests' own, with the jumps to them."""
    for family in FAMILIES:
        for table in TABLES:
            rules = output([f"{family}-save", "-t", table])
            if kept := without_chains(rules):
                output([f"{family}-restore", "-T", table], stdin=kept)


def without_chains(rules: str) -> str | None:
    """Return an iptables-save text without the cluster's chains, rules and jumps; None if it has none."""
    kept = [line for line in rules.splitlines() if not _ours(line)]
    return None if len(kept) == len(rules.splitlines()) else "\n".join(kept) + "\n"


def _ours(line: str) -> bool:
    if line.startswith(":"):
        return bool(CHAINS.match(line[1:]))
    words = line.split()
    return any(
        flag in ("-A", "-j", "-g") and CHAINS.match(word)
        for flag, word in itertools.pairwise(words)
    )
