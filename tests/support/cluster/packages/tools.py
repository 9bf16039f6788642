"""Go programs of the test cluster, built once for the content of what they are built from."""

import functools
import hashlib
import os
import shutil
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path

from tests.support.cluster.commands import build, output
from tests.support.cluster.locks import locked
from tests.support.cluster.places import GROUPS_SOURCE, NODE_SOURCE, Places

KUBERNETES = "v1.36.3"
CONTAINERD = "github.com/containerd/containerd/v2/cmd"
GO_FLAGS = ("-trimpath", "-gcflags=all=-dwarf=false", "-ldflags")
"""Without debugging tables, which these builds do not need, compilation is faster."""
COMPILER_GOGC = "400"
"""GOGC of the compiler: fewer garbage collections at the cost of memory, which is not scarce."""


@dataclass(frozen=True)
class GoTool:
    """A program, or a few, from one `go build` or `go install`."""

    name: str
    argv: tuple[str, ...]
    programs: tuple[str, ...]
    sources: tuple[Path, ...] = ()

    def key(self, go_version: str) -> str:
        """Hash of all that decides the outcome: sources, command and compiler."""
        digest = hashlib.sha256("\0".join((go_version, *self.argv)).encode())
        for source in self.sources:
            digest.update(source.read_bytes())
        return digest.hexdigest()[:12]


def _kubernetes_flags() -> str:
    package = "k8s.io/component-base/version"
    major, minor = KUBERNETES.removeprefix("v").split(".")[:2]
    stamps = {"gitVersion": KUBERNETES, "gitMajor": major, "gitMinor": minor}
    return " ".join(["-s", "-w", *(f"-X {package}.{key}={value}" for key, value in stamps.items())])


MODULE = (NODE_SOURCE / "go.mod", NODE_SOURCE / "go.sum")
"""Pins Kubernetes, containerd and helm together, so that packages which they share are compiled once."""
NODE = GoTool(
    name="node",
    argv=("go", "build", *GO_FLAGS, _kubernetes_flags(), "-o", "{bin}/node", "."),
    programs=("node",),
    sources=(*MODULE, NODE_SOURCE / "main.go"),
)
CONTAINER_PROGRAMS = ("containerd", "containerd-shim-runc-v2", "ctr")
CONTAINERD_TOOL = GoTool(
    name="containerd",
    argv=(
        "go", "build", *GO_FLAGS, "-s -w", "-tags", "no_btrfs no_devmapper no_zfs", "-o", "{bin}/",
        *(f"{CONTAINERD}/{program}" for program in CONTAINER_PROGRAMS),
    ),
    programs=CONTAINER_PROGRAMS,
    sources=MODULE,
)  # fmt: skip
HELM = GoTool(
    "helm",
    ("go", "build", *GO_FLAGS, "-s -w", "-o", "{bin}/helm", "helm.sh/helm/v3/cmd/helm"),
    ("helm",),
    MODULE,
)
KUBECONFORM = GoTool(
    "kubeconform",
    (
        "go",
        "install",
        *GO_FLAGS,
        "-s -w",
        "github.com/yannh/kubeconform/cmd/kubeconform@v0.7.0",
    ),
    ("kubeconform",),
)
HELM_DOCS = GoTool(
    "helm-docs",
    ("go", "install", *GO_FLAGS, "-s -w", "github.com/norwoodj/helm-docs/cmd/helm-docs@v1.14.2"),
    ("helm-docs",),
)
KUBE_SCORE = GoTool(
    "kube-score",
    ("go", "install", *GO_FLAGS, "-s -w", "github.com/zegl/kube-score/cmd/kube-score@v1.20.0"),
    ("kube-score",),
)
CYCLONUS = GoTool(
    "cyclonus",
    ("go", "install", *GO_FLAGS, "-s -w", "github.com/mattfenwick/cyclonus/cmd/cyclonus@v0.5.6"),
    ("cyclonus",),
)
"""The last two are for `make audit` alone, which builds them itself."""
GITOPS_SOURCE = Path(__file__).resolve().parents[2] / "gitops" / "health"
GITOPS_HEALTH = GoTool(
    name="gitops-health",
    argv=("go", "build", *GO_FLAGS, "-s -w", "-o", "{bin}/gitops-health", "."),
    programs=("gitops-health",),
    sources=tuple(GITOPS_SOURCE / name for name in ("go.mod", "go.sum", "main.go")),
)
"""kstatus, Flux' expressions and Argo CD's interpreter, for the tests of examples/gitops, which build it themselves."""
LWS_MODULE = "sigs.k8s.io/lws"
LWS = GoTool(
    name="lws",
    argv=("go", "build", *GO_FLAGS, "-s -w", "-o", "{bin}/lws-controller", f"{LWS_MODULE}/cmd"),
    programs=("lws-controller",),
    sources=(GROUPS_SOURCE / "go.mod", GROUPS_SOURCE / "go.sum"),
)
"""The LeaderWorkerSet controller, with the versions of Kubernetes' packages that its own module names."""
CLUSTER_TOOLS = (NODE, CONTAINERD_TOOL)
CHART_TOOLS = (HELM, KUBECONFORM, HELM_DOCS)
KUBECTL_ROLE = "kubectl"


@functools.cache
def go_version() -> str:
    """Return the compiler's version, as its own words.

    Raises:
        CommandFailedError: there is no Go.
    """
    return output(["go", "env", "GOVERSION", "GOOS", "GOARCH"]).replace("\n", " ").strip()


def program(places: Places, tool: GoTool, name: str) -> Path:
    """Return where a tool's program is, or will be."""
    return _folder(places, tool) / name


def build_tool(places: Places, tool: GoTool) -> Path:
    """Build a tool unless this very content is built already; return its folder.

    Raises:
        CommandFailedError: the build failed; the message ends its log.
    """
    return build_tools(places, (tool,))[0]


def build_tools(places: Places, tools: Sequence[GoTool]) -> list[Path]:
    """Build the tools that are missing, one after the other; return their folders in order.

    Raises:
        CommandFailedError: a build failed; the message ends its log.
    """
    return list(build_each(places, tools))


def build_each(places: Places, tools: Sequence[GoTool]) -> Iterator[Path]:
    """Build the tools that are missing, one after the other; yield each one's folder once it is there.

    Go's own caches are in a folder of the project's and are removed at the end: they are ten times as large as what
    is built. Where GOCACHE is set in the environment, Go uses the developer's, and nothing is removed.

    Raises:
        CommandFailedError: a build failed; the message ends its log.
    """
    if not absent(places, tools):
        yield from (_linked(places, tool) for tool in tools)
        return
    with locked(places, "go"):
        for tool in tools:
            if absent(places, [tool]):
                _compile(places, tool, _folder(places, tool))
                _forget_older(places.tools, tool, _folder(places, tool))
            yield _linked(places, tool)
        shutil.rmtree(places.go, ignore_errors=True)


def absent(places: Places, tools: Sequence[GoTool]) -> list[GoTool]:
    """Return the tools that are not built."""
    return [
        tool
        for tool in tools
        if not all((_folder(places, tool) / name).exists() for name in tool.programs)
    ]


def _folder(places: Places, tool: GoTool) -> Path:
    return places.tools / f"{tool.name}-{tool.key(go_version())}"


def _compile(places: Places, tool: GoTool, folder: Path) -> None:
    unfinished = folder.with_name(f"{folder.name}.{os.getpid()}")
    unfinished.mkdir(parents=True, exist_ok=True)
    log = places.tools / f"{tool.name}.log"
    log.unlink(missing_ok=True)
    build(
        f"go: {tool.name}",
        [word.replace("{bin}", str(unfinished)) for word in tool.argv],
        log,
        env={
            "CGO_ENABLED": "0",
            "GOBIN": str(unfinished),
            "GOFLAGS": "-buildvcs=false -modcacherw",
            "GOGC": COMPILER_GOGC,
            **_go_caches(places),
        },
        cwd=tool.sources[0].parent if tool.sources else unfinished,
    )
    shutil.rmtree(folder, ignore_errors=True)
    unfinished.rename(folder)


def _go_caches(places: Places, environ: Mapping[str, str] = os.environ) -> dict[str, str]:
    if "GOCACHE" in environ:
        return {}
    return {"GOCACHE": str(places.go / "build"), "GOMODCACHE": str(places.go / "modules")}


def _forget_older(tools: Path, tool: GoTool, kept: Path) -> None:
    """Another clone may still run an older build, so the newest three stay."""
    others = sorted(tools.glob(f"{tool.name}-*"), key=lambda folder: folder.stat().st_mtime)[:-3]
    for folder in others:
        if folder != kept:
            shutil.rmtree(folder, ignore_errors=True)


def _linked(places: Places, tool: GoTool) -> Path:
    """Link a tool's programs by name, and return its folder; the node's program answers to `kubectl` by its name."""
    folder = _folder(places, tool)
    places.commands.mkdir(parents=True, exist_ok=True)
    for name in tool.programs:
        link = places.commands / (KUBECTL_ROLE if name == "node" else name)
        unfinished = places.commands / f".{name}.{os.getpid()}"
        unfinished.unlink(missing_ok=True)
        unfinished.symlink_to(folder / name)
        unfinished.replace(link)
    return folder
