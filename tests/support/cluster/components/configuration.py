"""Configuration files of the cluster's parts, as pure text."""

import json
from pathlib import Path

from tests.support.cluster import settings


def kubeconfig(pki: Path, user: str) -> str:
    """Return a kubeconfig of the user whose certificate is `<user>.crt` in `pki`."""
    return as_json(
        {
            "apiVersion": "v1",
            "kind": "Config",
            "clusters": [
                {
                    "name": "penstock",
                    "cluster": {
                        "server": settings.API_SERVER,
                        "certificate-authority": f"{pki}/ca.crt",
                    },
                }
            ],
            "users": [
                {
                    "name": user,
                    "user": {
                        "client-certificate": f"{pki}/{user}.crt",
                        "client-key": f"{pki}/{user}.key",
                    },
                }
            ],
            "contexts": [{"name": "penstock", "context": {"cluster": "penstock", "user": user}}],
            "current-context": "penstock",
        }
    )


def containerd(run: Path, root: Path) -> str:
    """Return containerd's config.toml (version 3).

    `restrict_oom_score_adj`: where CAP_SYS_RESOURCE is missing, runc otherwise dies with
    "can't get final child's PID from pipe: EOF".
    """
    return f"""version = 3
root = "{root}"
state = "{run}/containerd"
disabled_plugins = ["io.containerd.nri.v1.nri", "io.containerd.internal.v1.tracing"]
[grpc]
  address = "{run}/containerd.sock"
[plugins."io.containerd.internal.v1.opt"]
  path = "{run}/opt"
[plugins."io.containerd.cri.v1.images".pinned_images]
  sandbox = "{settings.SANDBOX_IMAGE}"
[plugins."io.containerd.cri.v1.runtime"]
  restrict_oom_score_adj = true
  netns_mounts_under_state_dir = true
  [plugins."io.containerd.cri.v1.runtime".containerd.runtimes.runc]
    runtime_type = "io.containerd.runc.v2"
    [plugins."io.containerd.cri.v1.runtime".containerd.runtimes.runc.options]
      Root = "{run}/runc"
  [plugins."io.containerd.cri.v1.runtime".cni]
    bin_dirs = ["{settings.CNI_PROGRAMS}"]
    conf_dir = "{run}/cni"
"""


def pod_network(run: Path) -> str:
    """Return the CNI list: a bridge with local addresses; their leases live in the run folder."""
    ranges = [[{"subnet": settings.POD_SUBNET}]]
    addresses = {
        "type": "host-local", "ranges": ranges, "routes": [{"dst": "0.0.0.0/0"}], "dataDir": f"{run}/addresses"
    }  # fmt: skip
    bridge = {
        "type": "bridge", "bridge": settings.BRIDGE, "isGateway": True, "ipMasq": True, "hairpinMode": True,
        "ipam": addresses,
    }  # fmt: skip
    ports = {"type": "portmap", "capabilities": {"portMappings": True}}
    return as_json({"cniVersion": "0.4.0", "name": settings.BRIDGE, "plugins": [bridge, ports]})


def kubelet(run: Path) -> str:
    """Return the KubeletConfiguration: webhook authentication, cgroup v1 allowed, no eviction on a full disk."""
    pki = f"{run}/pki"
    return as_json(
        {
            "apiVersion": "kubelet.config.k8s.io/v1beta1",
            "kind": "KubeletConfiguration",
            "address": settings.NODE_ADDRESS,
            "healthzBindAddress": "127.0.0.1",
            "tlsCertFile": f"{pki}/kubelet.crt",
            "tlsPrivateKeyFile": f"{pki}/kubelet.key",
            "authentication": {
                "anonymous": {"enabled": False},
                "webhook": {"enabled": True},
                "x509": {"clientCAFile": f"{pki}/ca.crt"},
            },
            "authorization": {"mode": "Webhook"},
            "containerRuntimeEndpoint": f"unix://{run}/containerd.sock",
            "failCgroupV1": False,
            "cgroupDriver": "cgroupfs",
            "cgroupRoot": f"/{settings.CGROUP}",
            "clusterDNS": [settings.NODE_ADDRESS],
            "clusterDomain": settings.DOMAIN,
            "failSwapOn": False,
            "imageGCHighThresholdPercent": 100,
            "evictionHard": {"memory.available": "100Mi", "nodefs.available": "1%"},
            "maxPods": settings.MAX_PODS,
            "podLogsDir": f"{run}/pod-logs",
            "volumePluginDir": f"{run}/volume-plugins",
            "registryPullQPS": 0,
            "serializeImagePulls": False,
            "resolvConf": "/etc/resolv.conf",
        }
    )


def audit_policy() -> str:
    """Return an audit policy that keeps writes alone: no reads, no Leases, no Events, no access reviews."""
    quiet = [
        {"level": "None", "verbs": ["get", "list", "watch"]},
        {"level": "None", "resources": [{"group": "coordination.k8s.io", "resources": ["leases"]}]},
        {
            "level": "None",
            "resources": [
                {"group": group, "resources": ["events"]} for group in ("", "events.k8s.io")
            ],
        },
        {
            "level": "None",
            "resources": [
                {"group": group} for group in ("authentication.k8s.io", "authorization.k8s.io")
            ],
        },
        {"level": "Metadata"},
    ]
    head = {"apiVersion": "audit.k8s.io/v1", "kind": "Policy"}
    return as_json({**head, "omitStages": ["RequestReceived"], "rules": quiet})


def corefile(run: Path) -> str:
    """Return CoreDNS's configuration: the cluster's names by kubeconfig, all else as the machine does."""
    return f""".:53 {{
  bind {settings.NODE_ADDRESS}
  errors
  kubernetes {settings.DOMAIN} in-addr.arpa ip6.arpa {{
    kubeconfig {run}/coredns.kubeconfig penstock
  }}
  forward . /etc/resolv.conf
  cache 5
}}
"""


def as_json(value: object) -> str:
    """Render a value as JSON, which every YAML reader takes too."""
    return json.dumps(value, indent=1) + "\n"
