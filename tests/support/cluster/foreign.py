"""A user's cluster instead of the project's own, selected by `KUBE_CONTEXT=name`."""

import hashlib
import os
import shutil
from collections.abc import Mapping
from pathlib import Path

from tests.support.cluster.commands import CommandFailedError, output
from tests.support.cluster.packages import tools
from tests.support.cluster.places import Places
from tests.support.cluster.progress import say

IMAGES = {
    "operator": ("PENSTOCK_OPERATOR_IMAGE", "localhost/penstock-operator:dev"),
    "runtime": ("PENSTOCK_RUNTIME_IMAGE", "localhost/penstock-runtime:dev"),
    "prometheus": ("PENSTOCK_PROMETHEUS_IMAGE", "localhost/penstock-prometheus:dev"),
    "gateway": ("PENSTOCK_GATEWAY_IMAGE", "localhost/penstock-gateway:dev"),
    "batches": ("PENSTOCK_BATCHES_IMAGE", "localhost/penstock-batches:dev"),
    "envoy": ("PENSTOCK_ENVOY_IMAGE", "localhost/penstock-envoy:dev"),
}


class ContextUnusableError(Exception):
    """The named context does not lead to a cluster that answers."""


def chosen_context(environ: Mapping[str, str] = os.environ) -> str | None:
    """Return the context that KUBE_CONTEXT names, or None: our own cluster."""
    return environ.get("KUBE_CONTEXT") or None


def image_names(environ: Mapping[str, str] = os.environ) -> dict[str, str]:
    """Return the image names that the cluster's nodes pull; the user pushes the images."""
    return {name: environ.get(variable) or usual for name, (variable, usual) in IMAGES.items()}


def check(places: Places, context: str) -> None:
    """Check that the context's cluster answers.

    Raises:
        ContextUnusableError: with kubectl's message.
    """
    try:
        output(
            [_kubectl(places), "--context", context, "get", "--raw", "/readyz"], timeout_seconds=30
        )
    except CommandFailedError as error:
        raise ContextUnusableError(f"KUBE_CONTEXT={context}: {error}") from error
    say(f"the cluster of the context {context} answers")


def kubeconfig(places: Places, context: str) -> Path:
    """Write a kubeconfig with this context alone; contexts of equal name in different kubeconfigs get separate files."""
    origin = f"{context} {os.environ.get('KUBECONFIG', '')}"
    name = hashlib.sha256(origin.encode()).hexdigest()[:12]
    path = places.cache / "contexts" / f"{name}.kubeconfig"
    path.parent.mkdir(parents=True, mode=0o700, exist_ok=True)
    path.touch(mode=0o600)
    path.write_text(
        output([_kubectl(places), "config", "view", "--context", context, "--minify", "--flatten"])
    )
    return path


def _kubectl(places: Places) -> str:
    kubectl = shutil.which("kubectl")
    if kubectl is None:
        tools.build_tool(places, tools.NODE)
        kubectl = str(places.commands / tools.KUBECTL_ROLE)
    return kubectl
