"""The cluster's addresses and sizes, each once."""

from typing import Final

NODE_NAME: Final = "node-1"
BRIDGE: Final = "penstock0"
NODE_ADDRESS: Final = "10.244.0.1"
"""The bridge's own address: the API server, the kubelet and DNS listen on it, so nothing is open to other machines."""
POD_SUBNET: Final = "10.244.0.0/24"
SERVICE_SUBNET: Final = "10.96.0.0/16"
API_SERVICE_ADDRESS: Final = "10.96.0.1"
API_PORT: Final = 6443
ETCD_URL: Final = "http://127.0.0.1:2379"
ETCD_PEER_URL: Final = "http://127.0.0.1:2380"
DOMAIN: Final = "cluster.local"
CGROUP: Final = "penstock"
"""Pods live under this control group, so that `down` ends them and nothing else."""
MAX_PODS: Final = 200
GPUS: Final = 8
GPU_RESOURCE: Final = "nvidia.com/gpu"
CNI_PROGRAMS: Final = "/usr/lib/cni"
SANDBOX_IMAGE: Final = "localhost/penstock-busybox:1"
"""Holds every pod's namespaces; a static busybox, so tests can use it for small pods as well."""

API_SERVER: Final = f"https://{NODE_ADDRESS}:{API_PORT}"
