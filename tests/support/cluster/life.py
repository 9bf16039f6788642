"""Start, stop and status of the test cluster."""

from collections.abc import Callable, Iterator
from concurrent.futures import ThreadPoolExecutor
from contextlib import contextmanager
from pathlib import Path

from tests.support.cluster.commands import output, tail
from tests.support.cluster.components import certificates, parts
from tests.support.cluster.components.api import ClusterApi
from tests.support.cluster.host import kernel, network, processes, sandbox
from tests.support.cluster.host.clearing import clear
from tests.support.cluster.locks import locked
from tests.support.cluster.packages import debian, tools
from tests.support.cluster.packages.caches import size
from tests.support.cluster.places import MANIFESTS, Places
from tests.support.cluster.progress import WaitTimedOutError, say, wait_until

OWN_MANIFESTS = ("coredns.yaml",)


class PartEndedError(Exception):
    """A part of the cluster exited during start-up; the message contains the end of its log."""


class OtherClusterError(Exception):
    """A cluster of another cache uses this machine's bridge; the message contains the command that ends it."""


class NotUpError(Exception):
    """No usable cluster is up; the message contains the remedy."""


def prepare(places: Places) -> tuple[Path, Path]:
    """Install packages and build programs concurrently; return the node binary and the container programs."""
    debian.require_root()
    with ThreadPoolExecutor(max_workers=1) as pool:
        packages = pool.submit(debian.install, places, debian.CLUSTER_PACKAGES)
        node, programs = tools.build_tools(places, tools.CLUSTER_TOOLS)
        packages.result()
    return node / "node", programs


def up(places: Places) -> None:
    """Bring the cluster up; a healthy one of the same configuration is kept, any other is replaced.

    Raises:
        CommandFailedError, PartEndedError, WaitTimedOutError: with the log's end.
    """
    node, programs = prepare(places)
    with locked(places, "cluster"):
        wanted = parts.identity_of(places, node, programs, _manifests())
        if (fault := _fault(places, wanted)) is None:
            say("the cluster is up already")
            return
        if (holder := network.holder()) not in (None, "", str(places.cache)):
            remedy = f"PENSTOCK_CACHE={holder} make cluster-down"
            raise OtherClusterError(f"a cluster from {holder} runs on this machine: {remedy}")
        say(f"starting afresh: {fault}")
        clear(places)
        _start(places, node, programs)
        (places.run / "identity").write_text(wanted)
    say(f"the cluster is up: KUBECONFIG={places.kubeconfig}")


@contextmanager
def image_store(places: Places, programs: Path) -> Iterator[None]:
    """Run containerd alone, so that images reach the node's store before the cluster starts; a running one will do.

    Raises:
        CommandFailedError, PartEndedError, WaitTimedOutError: with the log's end.
    """
    with locked(places, "cluster"):
        running = processes.recorded(places.run).get("containerd")
        if running is not None and running.alive:
            yield
            return
        clear(places)
        write_files(places)
        try:
            processes.start(parts.container_part(places, programs), places.run)
            _await(places, "containerd", lambda: sandbox.not_serving(places, programs), 30)
            yield
        finally:
            clear(places)


def down(places: Places) -> None:
    """End the cluster and remove everything except the cache."""
    debian.require_root()
    with locked(places, "cluster"):
        clear(places)
    say(
        f"the cluster is down; {size(places)} stay in {places.cache}: `make clean-cache` removes them"
    )


def status(places: Places) -> dict[str, str]:
    """Return every part's state, and the node's."""
    recorded_parts = processes.recorded(places.run)
    lines = {
        name: f"running as {process.pid}" if process.alive else "ended"
        for name, process in sorted(recorded_parts.items())
    }
    if recorded_parts:
        lines["node"] = ClusterApi(places.run / "pki").node_not_ready() or "Ready"
    return lines or {"cluster": "down"}


def require_up(places: Places) -> None:
    """Check that the project's cluster is up.

    Raises:
        NotUpError: it is not; the message contains the remedy.
    """
    if not places.kubeconfig.exists():
        raise NotUpError("the test cluster is not up: run `make cluster`, or set KUBE_CONTEXT")
    if reason := ClusterApi(places.run / "pki").not_ready():
        raise NotUpError(
            f"the test cluster's API server is not ready ({reason}): run `make cluster`"
        )


def _fault(places: Places, wanted: str) -> str | None:
    """Return why the running cluster cannot be kept, or None when it can."""
    kept = places.run / "identity"
    if not kept.exists():
        return "no cluster is up" if not places.run.exists() else "the last start was not finished"
    if kept.read_text() != wanted:
        return "the running cluster has another configuration"
    if ended := [
        name for name, process in processes.recorded(places.run).items() if not process.alive
    ]:
        return f"ended: {', '.join(sorted(ended))}"
    return ClusterApi(places.run / "pki").node_not_ready()


def _start(places: Places, node: Path, programs: Path) -> None:
    write_files(places)
    network.raise_bridge(places.cache)
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
    api = ClusterApi(places.run / "pki")
    _await(places, "the API server", api.not_ready, 60)
    for part in parts.other_parts(places, node):
        processes.start(part, places.run)
    for name in OWN_MANIFESTS:
        output(
            [
                places.commands / "kubectl",
                "--kubeconfig",
                places.kubeconfig,
                "apply",
                "-f",
                MANIFESTS / name,
            ]
        )
    _await(places, "the node to be Ready", api.node_not_ready, 60)
    api.advertise_gpus()


def write_files(places: Places) -> None:
    """Create a cluster's run folder with its certificates and configuration files."""
    run = places.run
    run.mkdir(parents=True, mode=0o700)
    certificates.make_authority(run / "pki")
    with ThreadPoolExecutor(max_workers=4) as pool:
        list(
            pool.map(
                lambda identity: certificates.make_certificate(run / "pki", identity),
                parts.IDENTITIES,
            )
        )
    for name, content in parts.config_files(places).items():
        (run / name).parent.mkdir(parents=True, exist_ok=True)
        (run / name).write_text(content)
        (run / name).chmod(0o600)


def _await(
    places: Places, what: str, probe: Callable[[], str | None], timeout_seconds: float
) -> None:
    """Wait, and fail at once when any part has ended."""

    def watched() -> str | None:
        for name, process in processes.recorded(places.run).items():
            if not process.alive:
                raise PartEndedError(
                    f"{name} ended; its log:\n{tail(places.run / 'log' / f'{name}.log')}"
                )
        return probe()

    try:
        wait_until(what, watched, timeout_seconds=timeout_seconds)
    except WaitTimedOutError as error:
        raise WaitTimedOutError(f"{error}; the logs are in {places.run}/log") from error


def _manifests() -> bytes:
    return b"".join((MANIFESTS / name).read_bytes() for name in OWN_MANIFESTS)
