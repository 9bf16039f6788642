"""The cluster's life: up, down and what it is now."""

import fcntl
import shutil
from collections.abc import Callable, Iterator
from concurrent.futures import ThreadPoolExecutor
from contextlib import contextmanager
from pathlib import Path

from tests.cluster import certificates, debian, kernel, network, parts, processes, sandbox, settings, tools
from tests.cluster.api import Api
from tests.cluster.commands import output, tail
from tests.cluster.places import MANIFESTS, Places
from tests.cluster.progress import WaitTimedOutError, say, wait_until

OWN_MANIFESTS = ("coredns.yaml",)
STOP_ORDER = ("kubelet", "containerd", "coredns", "kube-proxy", "kube-scheduler", "kube-controller-manager")
SOCKET_FOLDERS = (Path("/run/containerd/s"), Path("/var/lib/kubelet/device-plugins"))
"""Where containerd's shims and the kubelet put sockets whatever they are told."""
CNI_RESULTS = Path("/var/lib/cni/results")
LOG_LINKS = Path("/var/log/containers")


class PartEndedError(Exception):
    """A part of the cluster ended while the others waited for it; the message ends its log."""


def prepare(places: Places) -> tuple[Path, Path]:
    """Install and build what the cluster is made of, side by side; return node binary and container programs."""
    debian.require_root()
    with ThreadPoolExecutor(max_workers=2) as pool:
        packages = pool.submit(debian.install, places, debian.CLUSTER_PACKAGES)
        built = [pool.submit(tools.build_tool, places, tool) for tool in tools.CLUSTER_TOOLS]
        packages.result()
        node, programs = (future.result() for future in built)
    return node / "node", programs


def up(places: Places) -> None:
    """Bring the cluster up; a healthy one of the same make is kept, anything else is replaced.

    Raises:
        CommandFailedError, PartEndedError, WaitTimedOutError: with the log's end.
    """
    node, programs = prepare(places)
    with _locked(places):
        wanted = parts.identity_of(places, node, programs, _manifests())
        if (fault := _fault(places, wanted)) is None:
            say("the cluster is up already")
            return
        say(f"starting afresh: {fault}")
        _clear(places)
        _start(places, node, programs)
        (places.run / "identity").write_text(wanted)
    say(f"the cluster is up: KUBECONFIG={places.kubeconfig}")


def down(places: Places) -> None:
    """End the cluster and remove all it left, but for the cache."""
    debian.require_root()
    with _locked(places):
        _clear(places)
    say("the cluster is down; what was built stays in the cache")


def status(places: Places) -> dict[str, str]:
    """Return every part's state, and the node's."""
    found = processes.recorded(places.run)
    lines = {name: f"running as {one.pid}" if one.alive else "ended" for name, one in sorted(found.items())}
    if found:
        lines["node"] = Api(places.run / "pki").node_not_ready() or "Ready"
    return lines or {"cluster": "down"}


def _fault(places: Places, wanted: str) -> str | None:
    """Return why the running cluster cannot be kept, or None when it can."""
    kept = places.run / "identity"
    if not kept.exists():
        return "no cluster is up" if not places.run.exists() else "the last start was not finished"
    if kept.read_text() != wanted:
        return "the running cluster was made from something else"
    if ended := [name for name, one in processes.recorded(places.run).items() if not one.alive]:
        return f"ended: {', '.join(sorted(ended))}"
    return Api(places.run / "pki").node_not_ready()


def _start(places: Places, node: Path, programs: Path) -> None:
    _write_files(places)
    network.raise_bridge()
    kernel.raise_cgroups()
    processes.start(parts.container_part(places, programs), places.run)
    processes.start(parts.storage_part(places, node), places.run)
    processes.start(parts.api_part(places, node), places.run)
    _await(places, "containerd", lambda: sandbox.not_serving(places, programs), 30)
    if forgotten := sandbox.forget_pods(places, programs):
        say(f"containerd: forgot {forgotten} containers of an earlier cluster")
        processes.end(processes.recorded(places.run)["containerd"], grace_seconds=5)
        processes.start(parts.container_part(places, programs), places.run)
        _await(places, "containerd", lambda: sandbox.not_serving(places, programs), 30)
    sandbox.import_sandbox(places, programs)
    api = Api(places.run / "pki")
    _await(places, "the API server", api.not_ready, 60)
    for part in parts.other_parts(places, node):
        processes.start(part, places.run)
    for name in OWN_MANIFESTS:
        output([places.commands / "kubectl", "--kubeconfig", places.kubeconfig, "apply", "-f", MANIFESTS / name])
    _await(places, "the node to be Ready", api.node_not_ready, 60)
    api.pretend_gpus()


def _write_files(places: Places) -> None:
    run = places.run
    run.mkdir(parents=True, mode=0o700)
    certificates.make_authority(run / "pki")
    with ThreadPoolExecutor(max_workers=4) as pool:
        list(pool.map(lambda identity: certificates.make_certificate(run / "pki", identity), parts.IDENTITIES))
    for name, content in parts.config_files(places).items():
        (run / name).parent.mkdir(parents=True, exist_ok=True)
        (run / name).write_text(content)
        (run / name).chmod(0o600)


def _await(places: Places, what: str, probe: Callable[[], str | None], timeout_seconds: float) -> None:
    """Wait, and fail at once when any part has ended."""

    def watched() -> str | None:
        for name, one in processes.recorded(places.run).items():
            if not one.alive:
                raise PartEndedError(f"{name} ended; its log:\n{tail(places.run / 'log' / f'{name}.log')}")
        return probe()

    try:
        wait_until(what, watched, timeout_seconds=timeout_seconds)
    except WaitTimedOutError as error:
        raise WaitTimedOutError(f"{error}; the logs are in {places.run}/log") from error


def _clear(places: Places) -> None:
    """Remove a cluster, whole, half or crashed, the kubelet first and the API server last."""
    found = processes.recorded(places.run)
    if found:
        say(f"ending {len(found)} parts")
    for name in STOP_ORDER[:1]:
        _end(found, name, 5)
    kernel.end_cgroups()
    _forget(places, found)
    for name in STOP_ORDER[1:]:
        _end(found, name, 5)
    for pid in processes.with_words(str(places.containerd_socket)):
        kernel.kill(pid)
    for name in [name for name in found if name not in STOP_ORDER]:
        _end(found, name, 0.5)  # a stopping API server holds its port for a minute while watches are open
    kernel.unmount_under(places.run)
    kernel.unmount_under(places.containerd)
    kernel.end_cgroups()
    if shutil.which("iptables-save"):
        network.drop_rules()
        network.drop_bridge()
    shutil.rmtree(places.run, ignore_errors=True)
    _clear_fixed_places(places)


def _clear_fixed_places(places: Places) -> None:
    """Remove what the parts put where no setting moves it."""
    for folder in SOCKET_FOLDERS:
        kernel.remove_dead_sockets(folder)
    for result in CNI_RESULTS.glob(f"{settings.BRIDGE}-*"):
        result.unlink()
    for link in LOG_LINKS.glob("*.log"):
        if link.readlink().is_relative_to(places.run):
            link.unlink()
    for folder in (*SOCKET_FOLDERS, CNI_RESULTS):
        kernel.remove_if_empty(folder)


def _end(found: dict[str, processes.Recorded], name: str, grace_seconds: float) -> None:
    if name in found:
        processes.end(found[name], grace_seconds=grace_seconds)


def _forget(places: Places, found: dict[str, processes.Recorded]) -> None:
    client = places.commands / "ctr"
    if client.exists() and "containerd" in found and found["containerd"].alive:
        try:
            sandbox.forget_pods(places, client.parent)
        except Exception as error:
            say(f"containerd keeps its pods until the next start: {error}")


def _manifests() -> bytes:
    return b"".join((MANIFESTS / name).read_bytes() for name in OWN_MANIFESTS)


@contextmanager
def _locked(places: Places) -> Iterator[None]:
    """One starts or stops at a time on a machine."""
    places.cache.mkdir(parents=True, exist_ok=True)
    with (places.cache / "cluster.lock").open("w") as lock:
        try:
            fcntl.flock(lock, fcntl.LOCK_EX | fcntl.LOCK_NB)
        except BlockingIOError:
            say("waiting for another start or stop of the cluster")
            fcntl.flock(lock, fcntl.LOCK_EX)
        yield
