"""Deliberate faults of the test node: stopped or hanging parts, and blocked ports."""

import signal
from collections.abc import Callable, Iterator
from contextlib import contextmanager

from tests.support.cluster import settings
from tests.support.cluster.commands import output, quietly
from tests.support.cluster.components import parts
from tests.support.cluster.components.api import ClusterApi
from tests.support.cluster.host import processes
from tests.support.cluster.packages import tools
from tests.support.cluster.places import Places
from tests.support.cluster.progress import wait_until

CHAIN = "PENSTOCK-FAULTS"
HOOKS = ("OUTPUT", "FORWARD")
READY_SECONDS = 60.0


class UnknownPartError(Exception):
    """The cluster has no part of that name."""


def part_named(places: Places, name: str) -> parts.Part:
    """Return a part by its name.

    Raises:
        UnknownPartError: with the names there are.
    """
    node = tools.program(places, tools.NODE, "node")
    programs = tools.program(places, tools.CONTAINERD_TOOL, "containerd").parent
    known = {part.name: part for part in parts.all_parts(places, node, programs)}
    if name not in known:
        raise UnknownPartError(f"'{name}' is none of {', '.join(known)}")
    return known[name]


def stop(places: Places, name: str) -> None:
    """End a part, as a crash would."""
    part_named(places, name)
    processes.end(processes.recorded(places.run)[name], grace_seconds=0)


def start(places: Places, name: str) -> None:
    """Start a part that was stopped, and wait until the node is Ready again, GPUs included."""
    part = part_named(places, name)
    if not processes.recorded(places.run)[name].alive:
        processes.start(part, places.run)
    api = ClusterApi(places.run / "pki")
    wait_until("the API server", api.not_ready, timeout_seconds=READY_SECONDS)
    wait_until("the node to be Ready", api.node_not_ready, timeout_seconds=READY_SECONDS)
    api.advertise_gpus()  # a restarted kubelet removes extended resources that no device plugin reports


def pause(places: Places, name: str) -> None:
    """Make a part hang: its connections stay open and nothing answers."""
    processes.send(processes.recorded(places.run)[name], signal.SIGSTOP)


def resume(places: Places, name: str) -> None:
    """Resume a paused part."""
    processes.send(processes.recorded(places.run)[name], signal.SIGCONT)


COMMANDS: dict[str, Callable[[Places, str], None]] = {
    "stop": stop, "start": start, "pause": pause, "resume": resume
}  # fmt: skip


@contextmanager
def stopped(places: Places, name: str) -> Iterator[None]:
    """Keep a part stopped for a while."""
    stop(places, name)
    try:
        yield
    finally:
        start(places, name)


@contextmanager
def port_blocked(port: int) -> Iterator[None]:
    """Drop what is sent to a port of any pod, silently, as a lost network would; `down` would remove the rules too."""
    rule = ["-p", "tcp", "-d", settings.POD_SUBNET, "--dport", str(port), "-j", "DROP"]
    quietly(["iptables", "-N", CHAIN])
    for hook in HOOKS:
        if CHAIN not in output(["iptables", "-S", hook]):
            output(["iptables", "-I", hook, "-j", CHAIN])
    output(["iptables", "-A", CHAIN, *rule])
    try:
        yield
    finally:
        output(["iptables", "-D", CHAIN, *rule])
