"""Paths of the test cluster's builds and runtime files, in one cache per machine."""

import os
from collections.abc import Mapping
from dataclasses import dataclass
from pathlib import Path

CHECKOUT = Path(__file__).resolve().parents[3]
NODE_SOURCE = Path(__file__).resolve().parent / "node"
GROUPS_SOURCE = Path(__file__).resolve().parent / "groups"
MANIFESTS = Path(__file__).resolve().parent / "components" / "manifests"


@dataclass(frozen=True)
class Places:
    """Folders under the cache; every clone on the machine shares them."""

    cache: Path

    @classmethod
    def from_env(cls, environ: Mapping[str, str] = os.environ) -> "Places":
        """Read PENSTOCK_CACHE; without it the cache is `~/.cache/penstock`."""
        chosen = environ.get("PENSTOCK_CACHE")
        return cls(Path(chosen).resolve() if chosen else Path.home() / ".cache" / "penstock")

    @property
    def tools(self) -> Path:
        """One folder a built tool, named by the hash of what it was built from."""
        return self.cache / "tools"

    @property
    def go(self) -> Path:
        """Go's caches while it builds the tools; gone afterwards."""
        return self.cache / "go"

    @property
    def commands(self) -> Path:
        """Links to the tools people type: kubectl, helm, kubeconform, ctr."""
        return self.cache / "bin"

    @property
    def images(self) -> Path:
        """Image archives, wheels and the builder's storage."""
        return self.cache / "images"

    @property
    def containerd(self) -> Path:
        """containerd's root: images and their snapshots, kept from one cluster to the next."""
        return self.cache / "containerd"

    @property
    def run(self) -> Path:
        """Everything of the running cluster; gone after `down`."""
        return self.cache / "cluster"

    @property
    def kubeconfig(self) -> Path:
        """Credentials of the cluster's administrator."""
        return self.run / "admin.kubeconfig"

    @property
    def containerd_socket(self) -> Path:
        """Where containerd answers."""
        return self.run / "containerd.sock"

    @property
    def audit_log(self) -> Path:
        """Every write the API server took, a JSON object a line."""
        return self.run / "log" / "audit.log"
