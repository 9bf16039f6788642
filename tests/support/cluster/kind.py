"""The demo on kind, Kubernetes in Docker, chosen by `make demo ON=kind`.

It creates a cluster, builds the images by Docker, loads them, and returns the environment in which the demo takes the
cluster for a user's: KUBECONFIG, KUBE_CONTEXT and the names of the images.
"""

import os
import shutil
import subprocess
from collections.abc import Mapping
from pathlib import Path

from tests.support.cluster.commands import Word, build, output
from tests.support.cluster.foreign import IMAGES
from tests.support.cluster.images.builder import docker_answers
from tests.support.cluster.images.recipes import (
    GATEWAY,
    OPERATOR,
    PROMETHEUS,
    RUNTIME,
    Recipe,
    content_hash,
)
from tests.support.cluster.images.wheels import CPU_INDEX, cpu_index_answers
from tests.support.cluster.places import CHECKOUT, Places

CHOICE = "PENSTOCK_DEMO_ON"
NAME = "penstock-demo"
CONTEXT = f"kind-{NAME}"
PROMETHEUS_CONTEXT = CHECKOUT / "tests" / "support" / "cluster" / "prometheus"
PROGRAMS = ("kind", "kubectl", "docker")
IMAGES_OF_THE_SHOW = (OPERATOR, RUNTIME, PROMETHEUS, GATEWAY)
ENVOY_IMAGE = "docker.io/envoyproxy/envoy:distroless-v1.40.0"
"""The chart's default, which the node pulls."""
WAIT = "180s"


class KindUnusableError(Exception):
    """kind was chosen and cannot be used; the message contains the remedy."""


def chosen(environ: Mapping[str, str] = os.environ) -> bool:
    """Return whether the demo runs on kind.

    Raises:
        KindUnusableError: the choice is another word.
    """
    choice = environ.get(CHOICE, "")
    if choice not in ("", "kind"):
        raise KindUnusableError(f"ON={choice}: `kind` is the only choice; leave it out for our own")
    return choice == "kind"


def check() -> None:
    """Check that the programs are there and that Docker answers.

    Raises:
        KindUnusableError: with what is missing.
    """
    missing = [name for name in PROGRAMS if not shutil.which(name)]
    if missing:
        raise KindUnusableError(f"ON=kind needs {', '.join(missing)} on the PATH: install it")
    if not docker_answers():
        raise KindUnusableError("ON=kind needs Docker and `docker info` fails: start its daemon")


def up(places: Places) -> dict[str, str]:
    """Create the cluster unless it is there, build and load the images, and return the demo's environment.

    Raises:
        CommandFailedError: the message ends the program's log.
    """
    log = places.cache / "kind.log"
    kubeconfig = places.cache / "kind.kubeconfig"
    if NAME not in output(["kind", "get", "clusters"]).split():
        build("kind: a cluster", create_command(kubeconfig), log)
    output(kubeconfig_command(kubeconfig))
    environment = {"KUBECONFIG": str(kubeconfig), "KUBE_CONTEXT": CONTEXT}
    for recipe in IMAGES_OF_THE_SHOW:
        image = image_name(recipe)
        if not _has(image):
            build(f"docker: {image}", build_command(recipe), log, env={"DOCKER_BUILDKIT": "1"})
        build(f"kind: {image} to the node", load_command(image), log)
        environment[IMAGES[recipe.name][0]] = image
    return {**environment, IMAGES["envoy"][0]: ENVOY_IMAGE}


def unbuilt() -> bool:
    """Return whether Docker lacks one of the images."""
    return not all(_has(image_name(recipe)) for recipe in IMAGES_OF_THE_SHOW)


def image_name(recipe: Recipe) -> str:
    """Return an image's name, whose tag is the hash of its content."""
    return f"{recipe.repository}:{content_hash(recipe, 'kind')}"


def create_command(kubeconfig: Path) -> list[Word]:
    """Return the command that creates the cluster; the user's own kubeconfig keeps its current context."""
    return ["kind", "create", "cluster", "--name", NAME, "--wait", WAIT, "--kubeconfig", kubeconfig]


def delete_command() -> list[Word]:
    """Return the command that deletes the cluster."""
    return ["kind", "delete", "cluster", "--name", NAME]


def kubeconfig_command(file: Path) -> list[Word]:
    """Return the command that writes the cluster's kubeconfig to a file of our own."""
    return ["kind", "export", "kubeconfig", "--name", NAME, "--kubeconfig", file]


def load_command(image: str) -> list[Word]:
    """Return the command that brings an image of Docker to the node."""
    return ["kind", "load", "docker-image", image, "--name", NAME]


def build_command(recipe: Recipe) -> list[Word]:
    """Return the command that builds an image; torch is the build for CPUs where its index answers."""
    if not recipe.extras:
        dockerfile, context = PROMETHEUS_CONTEXT / "kind.Dockerfile", PROMETHEUS_CONTEXT
    else:
        dockerfile, context = CHECKOUT / recipe.dockerfile, CHECKOUT
    for_cpus = recipe is RUNTIME and cpu_index_answers()
    arguments = ["--build-arg", f"PIP_EXTRA_INDEX_URL={CPU_INDEX}"] if for_cpus else []
    return ["docker", "build", *arguments, "-t", image_name(recipe), "-f", dockerfile, context]


def _has(image: str) -> bool:
    argv = ["docker", "image", "inspect", image]
    return not subprocess.run(argv, capture_output=True, check=False).returncode
