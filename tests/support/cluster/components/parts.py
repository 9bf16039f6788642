"""The parts of the cluster: name, command line and client identity of each process."""

import hashlib
from collections.abc import Mapping
from dataclasses import dataclass
from pathlib import Path

from tests.support.cluster import settings
from tests.support.cluster.components import configuration
from tests.support.cluster.components.certificates import Identity
from tests.support.cluster.places import Places

IDENTITIES = (
    Identity("admin", "penstock-admin", "system:masters"),
    Identity(
        "apiserver", "kube-apiserver", "system:masters",
        ("127.0.0.1", settings.NODE_ADDRESS, settings.API_SERVICE_ADDRESS, "localhost", "kubernetes",
         "kubernetes.default", "kubernetes.default.svc", f"kubernetes.default.svc.{settings.DOMAIN}"),
    ),
    Identity("controllers", "system:kube-controller-manager"),
    Identity("scheduler", "system:kube-scheduler"),
    Identity("kubelet", f"system:node:{settings.NODE_NAME}", "system:nodes", (settings.NODE_ADDRESS, settings.NODE_NAME)),
    Identity("proxy", "system:kube-proxy"),
    Identity("coredns", "penstock:coredns"),
)  # fmt: skip
API_CLIENTS = tuple(identity.file for identity in IDENTITIES if identity.file != "apiserver")


@dataclass(frozen=True)
class Part:
    """A process of the cluster."""

    name: str
    argv: tuple[str, ...]
    environment: tuple[tuple[str, str], ...] = ()


def config_files(places: Places) -> Mapping[str, str]:
    """Return every configuration file of the run folder by its relative path."""
    run = places.run
    return {
        **{
            f"{user}.kubeconfig": configuration.kubeconfig(run / "pki", user)
            for user in API_CLIENTS
        },
        "containerd.toml": configuration.containerd(run, places.containerd),
        f"cni/10-{settings.BRIDGE}.conflist": configuration.pod_network(run),
        "kubelet.json": configuration.kubelet(run),
        "audit-policy.json": configuration.audit_policy(),
        "Corefile": configuration.corefile(run),
    }


def container_part(places: Places, programs: Path) -> Part:
    """Return containerd; its shim is found in its own folder, runc and the rest on the path."""
    path = f"{programs}:/usr/local/sbin:/usr/local/bin:/usr/sbin:/usr/bin:/sbin:/bin"
    argv = (f"{programs}/containerd", "--config", f"{places.run}/containerd.toml")
    return Part("containerd", argv, (("PATH", path),))


def storage_part(places: Places, node: Path) -> Part:
    """Return etcd; without fsync, for nothing in it outlives the cluster."""
    return Part(
        "etcd",
        (
            str(node), "etcd", "--data-dir", f"{places.run}/etcd", "--unsafe-no-fsync",
            "--listen-client-urls", settings.ETCD_URL, "--advertise-client-urls", settings.ETCD_URL,
            "--listen-peer-urls", settings.ETCD_PEER_URL, "--initial-advertise-peer-urls", settings.ETCD_PEER_URL,
            "--initial-cluster", f"default={settings.ETCD_PEER_URL}", "--log-level", "warn",
        ),
    )  # fmt: skip


def api_part(places: Places, node: Path) -> Part:
    """Return the API server, with an audit log of writes and the restricted rights of Node and RBAC."""
    run, pki = places.run, places.run / "pki"
    return Part(
        "kube-apiserver",
        (
            str(node), "kube-apiserver", f"--etcd-servers={settings.ETCD_URL}",
            f"--bind-address={settings.NODE_ADDRESS}", f"--secure-port={settings.API_PORT}",
            f"--advertise-address={settings.NODE_ADDRESS}", f"--service-cluster-ip-range={settings.SERVICE_SUBNET}",
            f"--client-ca-file={pki}/ca.crt", f"--tls-cert-file={pki}/apiserver.crt",
            f"--tls-private-key-file={pki}/apiserver.key",
            f"--service-account-issuer=https://kubernetes.default.svc.{settings.DOMAIN}",
            f"--service-account-key-file={pki}/accounts.key", f"--service-account-signing-key-file={pki}/accounts.key",
            "--authorization-mode=Node,RBAC", "--enable-admission-plugins=NodeRestriction", "--allow-privileged",
            f"--kubelet-certificate-authority={pki}/ca.crt", f"--kubelet-client-certificate={pki}/apiserver.crt",
            f"--kubelet-client-key={pki}/apiserver.key", "--kubelet-preferred-address-types=InternalIP",
            f"--audit-policy-file={run}/audit-policy.json", f"--audit-log-path={places.audit_log}",
            "--audit-log-maxsize=200", "--audit-log-maxbackup=1",
        ),
    )  # fmt: skip


def other_parts(places: Places, node: Path) -> tuple[Part, ...]:
    """Return the clients of the API server, which start together once it is ready."""
    run, pki = places.run, places.run / "pki"
    local = "--bind-address=127.0.0.1"
    return (
        Part(
            "kube-controller-manager",
            (
                str(node), "kube-controller-manager", f"--kubeconfig={run}/controllers.kubeconfig", local,
                f"--cert-dir={run}/pki", "--leader-elect=false", "--use-service-account-credentials",
                f"--service-account-private-key-file={pki}/accounts.key", f"--root-ca-file={pki}/ca.crt",
            ),
        ),
        Part(
            "kube-scheduler",
            (
                str(node), "kube-scheduler", f"--kubeconfig={run}/scheduler.kubeconfig", local,
                f"--cert-dir={run}/pki", "--leader-elect=false",
            ),
        ),
        Part(
            "kubelet",
            (
                str(node), "kubelet", f"--config={run}/kubelet.json", f"--kubeconfig={run}/kubelet.kubeconfig",
                f"--root-dir={run}/kubelet", f"--hostname-override={settings.NODE_NAME}",
                f"--node-ip={settings.NODE_ADDRESS}",
            ),
        ),
        Part(
            "kube-proxy",
            (
                str(node), "kube-proxy", f"--kubeconfig={run}/proxy.kubeconfig", "--proxy-mode=iptables",
                f"--cluster-cidr={settings.POD_SUBNET}", f"--hostname-override={settings.NODE_NAME}",
                "--conntrack-max-per-core=0", "--healthz-bind-address=127.0.0.1:10256",
                "--metrics-bind-address=127.0.0.1:10249",
            ),
        ),
        Part("coredns", (str(node), "coredns", "-conf", f"{run}/Corefile")),
    )  # fmt: skip


def all_parts(places: Places, node: Path, programs: Path) -> tuple[Part, ...]:
    """Return all parts in the order of their start."""
    head = (container_part(places, programs), storage_part(places, node), api_part(places, node))
    return (*head, *other_parts(places, node))


def identity_of(places: Places, node: Path, programs: Path, manifests: bytes) -> str:
    """Return a hash of the cluster's configuration; a running cluster with an equal hash is kept."""
    digest = hashlib.sha256(repr(all_parts(places, node, programs)).encode())
    digest.update(repr(sorted(config_files(places).items())).encode())
    digest.update(repr(IDENTITIES).encode())
    digest.update(manifests)
    return digest.hexdigest()[:16]
