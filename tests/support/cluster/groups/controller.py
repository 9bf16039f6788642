"""The LeaderWorkerSet controller of the test cluster: its image, and its manifests from the same Go module."""

import json
import shutil
import tempfile
from pathlib import Path

from tests.support.cluster.commands import Word, output
from tests.support.cluster.host import sandbox
from tests.support.cluster.images import load
from tests.support.cluster.locks import locked
from tests.support.cluster.packages import archive, tools
from tests.support.cluster.places import GROUPS_SOURCE, Places

REPOSITORY = "localhost/penstock-lws"
PLACEHOLDER = f"{REPOSITORY}:dev"
"""The image name in kustomization.yaml."""


def bring_image(places: Places) -> str:
    """Build the controller and bring its image to the node, unless they are there; return the image's name.

    Raises:
        CommandFailedError: the build or the import failed.
    """
    (program,) = tools.LWS.programs
    folder = tools.build_tool(places, tools.LWS)
    image = f"{REPOSITORY}:{tools.LWS.key(tools.go_version())}"
    with locked(places, "images"):
        if image not in load.images_on_node(places):
            _import(places, image, (folder / program).read_bytes())
    return image


def _import(places: Places, image: str, program: bytes) -> None:
    path = places.images / "lws.tar"
    config = {"Entrypoint": ["/manager"], "User": "65532:65532"}
    archive.write_image(path, image, archive.layer({"manager": program}, {}), config)
    sandbox.ctr(places, places.commands, "images", "import", path)
    path.unlink()


def manifests(places: Places, image: str) -> str:
    """Return the controller's manifests for this image.

    Raises:
        CommandFailedError: the module could not be downloaded, or kustomization.yaml does not fit its manifests.
    """
    with tempfile.TemporaryDirectory() as folder:
        shutil.copy(GROUPS_SOURCE / "kustomization.yaml", folder)
        (Path(folder) / "config").symlink_to(_module() / "config")
        argv: list[Word] = [places.commands / tools.KUBECTL_ROLE, "kustomize", folder]
        rendered = output(argv, timeout_seconds=300)
    return rendered.replace(PLACEHOLDER, image)


def _module() -> Path:
    """Return the folder of the module at the version of go.mod, downloaded by Go unless it has it."""
    argv: list[Word] = ["go", "-C", GROUPS_SOURCE, "mod", "download", "-json", tools.LWS_MODULE]
    return Path(json.loads(output(argv, timeout_seconds=300))["Dir"])
