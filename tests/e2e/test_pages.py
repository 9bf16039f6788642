"""The commands of tutorials and how-to guides, run as they are printed; a page takes one to three minutes (`make test-long`).

Three things differ from what a reader types: the images are those of this checkout, ports of this machine are free ones,
and the Hugging Face Hub is a small server on the node that offers a tiny model under every name.
"""

import os
import shutil
import signal
import socket
import subprocess
from collections.abc import Iterator
from contextlib import suppress
from dataclasses import dataclass
from pathlib import Path

import pytest

from tests.e2e.conftest import Figure
from tests.support.cluster.settings import NODE_ADDRESS
from tests.support.kube import install
from tests.support.kube.api import Api
from tests.support.kube.install import Images
from tests.support.kube.namespaces import await_no_pods, delete_namespace
from tests.support.kube.pools import until
from tests.support.kube.target import Target
from tests.support.pages.blocks import ROOT, Block, blocks, pages
from tests.unit.runtime.protocols.openai.served import save_tiny_model
from tests.unit.runtime.sources.hub import Hub, serving

RUN = {
    page: commands
    for page in pages("tutorials", "how-to")
    if (commands := [block for block in blocks(page) if block.runs])
}
NAMESPACES = ("demo", "team-a", "team-b", "penstock-demo")
POLICIES = "/apis/penstock.dev/v1alpha1/inferencepolicies"
INSTALLS = "helm install penstock "
PRELUDE = """set -euo pipefail
trap 'kubectl describe inferencepools.penstock.dev --all-namespaces | tail -60' ERR
export KUBECONFIG={kubeconfig} PATH={programs}:$PATH
helm() {{
  case "$1" in
    install | upgrade) command helm "$@" {images} ;;
    *) command helm "$@" ;;
  esac
}}
"""


@dataclass(frozen=True, slots=True)
class Stage:
    """The cluster, this checkout's images, and the Hub's stand-in."""

    target: Target
    api: Api
    images: Images
    hub: str

    def script(self, commands: list[Block], port: int) -> str:
        """Return the commands as one script, each block announced by its place."""
        repository, _, tag = self.images.operator.rpartition(":")
        images = (
            f"--set image.repository={repository} --set image.tag={tag}"
            f" --set defaultRuntimeImage={self.images.runtime}"
        )
        prelude = PRELUDE.format(
            kubeconfig=self.target.kubeconfig, programs=self.target.programs, images=images
        )
        parts = [
            f"echo '== {block}' >&2\nset -x\n{block.text}{{ set +x; }} 2>/dev/null\n"
            for block in commands
        ]
        return prelude + self.as_here("\n".join(parts), port)

    def as_here(self, text: str, port: int) -> str:
        """Return commands with this checkout's runtime image, a free port and the Hub's stand-in."""
        source = "        repository: HuggingFaceTB/SmolLM2-135M-Instruct\n  accelerator:\n    count: 0\n"
        mirror = (
            f"  template: {{container: {{env: [{{name: HF_ENDPOINT, value: '{self.hub}'}}]}}}}\n"
        )
        for page, here in (
            ("registry.example/penstock-runtime:0.1.0", self.images.runtime),
            ("image: penstock-runtime:0.1.0", f"image: {self.images.runtime}"),
            (" 8000 &\n", f" {port}:8000 &\n"),
            ("localhost:8000", f"localhost:{port}"),
            (source, source + mirror),
        ):
            text = text.replace(page, here)
        return text


@pytest.fixture(scope="module")
def stage(
    target: Target, api: Api, images: Images, tmp_path_factory: pytest.TempPathFactory
) -> Iterator[Stage]:
    """The stage; an operator that was installed before is installed again at the end."""
    installed = install.RELEASE in target.helm("list", "-n", install.OPERATOR_NAMESPACE, "-q")
    folder = tmp_path_factory.mktemp("model")
    save_tiny_model(folder)
    files = {path.name: path.read_bytes() for path in folder.iterdir()}
    hub = Hub(files, repository="HuggingFaceTB/SmolLM2-135M-Instruct", redirects=False)
    with serving(hub, host=NODE_ADDRESS):
        yield Stage(target, api, images, hub.url)
    clear(target, api)
    if installed:
        install.install_operator(target, images)
    else:
        uninstall(target)


def uninstall(target: Target) -> None:
    namespace = install.OPERATOR_NAMESPACE
    target.helm("uninstall", install.RELEASE, "-n", namespace, "--ignore-not-found", "--wait")


def clear(target: Target, api: Api) -> None:
    """Remove what a page left, and wait until its namespaces are gone."""
    for policy in api.list(POLICIES) if api.get(POLICIES) else ():
        api.delete(f"{POLICIES}/{policy['metadata']['name']}")
    for name in NAMESPACES:
        delete_namespace(api, name)
    for name in NAMESPACES:
        await_no_pods(api, name)
        _await_gone(api, f"/api/v1/namespaces/{name}")


def _await_gone(api: Api, path: str) -> None:
    until(f"{path} gone", lambda: api.get(path) is None, seconds=120)


def free_port() -> int:
    with socket.socket() as probe:
        probe.bind(("127.0.0.1", 0))
        return int(probe.getsockname()[1])


@pytest.mark.long
@pytest.mark.own_cluster
@pytest.mark.alone
@pytest.mark.timeout(600)
@pytest.mark.parametrize("page", RUN, ids=lambda page: page.stem)
def test_the_commands_of_a_page_do_what_they_say(
    page: Path, stage: Stage, tmp_path: Path, figure: Figure
) -> None:
    clear(stage.target, stage.api)
    if any(INSTALLS in block.text for block in RUN[page]):
        uninstall(stage.target)
    else:
        install.install_operator(stage.target, stage.images)
        install.ensure_namespace(stage.api, "team-a")
    for name in ("charts", "examples"):
        (tmp_path / name).symlink_to(ROOT / name)
    log = tmp_path / "log"
    status = run(stage.script(RUN[page], free_port()), tmp_path, log)
    assert status == 0, log.read_text()[-4000:]
    figure(f"{page.parent.name}/{page.stem}: {len(RUN[page])} blocks of commands ran")


def run(script: str, folder: Path, log: Path) -> int:
    """Run a script in `folder`, end what it left in the background, and return its exit status."""
    bash = shutil.which("bash") or "bash"
    with log.open("w") as output:
        shell = subprocess.Popen(
            [bash, "-c", script], cwd=folder, start_new_session=True,
            stdin=subprocess.DEVNULL, stdout=output, stderr=subprocess.STDOUT,
        )  # fmt: skip
        try:
            return shell.wait(500)
        finally:
            with suppress(ProcessLookupError):
                os.killpg(shell.pid, signal.SIGKILL)
            shell.wait()
