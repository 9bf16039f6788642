"""The image that holds every pod's namespaces, and containerd's memory of pods that are gone."""

from pathlib import Path

from tests.support.cluster import settings
from tests.support.cluster.commands import CommandFailedError, output
from tests.support.cluster.packages import archive
from tests.support.cluster.packages.debian import busybox
from tests.support.cluster.places import Places

APPLETS = ("sh", "cat", "echo", "false", "httpd", "ls", "nc", "nslookup", "sleep", "true", "wget")


def ctr_argv(places: Places, programs: Path, *words: str | Path) -> list[str]:
    """Return a command line of containerd's own client, in the namespace that the kubelet uses."""
    return [
        str(programs / "ctr"),
        "-a",
        str(places.containerd_socket),
        "-n",
        "k8s.io",
        *map(str, words),
    ]


def ctr(places: Places, programs: Path, *words: str | Path) -> str:
    """Run containerd's own client."""
    return output(ctr_argv(places, programs, *words), timeout_seconds=300)


def not_serving(places: Places, programs: Path) -> str | None:
    """Return why containerd does not answer, or None when it does."""
    try:
        ctr(places, programs, "version")
    except CommandFailedError as error:
        return str(error).splitlines()[-1]
    return None


def import_sandbox(places: Places, programs: Path) -> None:
    """Make and import the sandbox image, unless containerd's kept root has it."""
    if settings.SANDBOX_IMAGE in ctr(places, programs, "images", "ls", "-q").split():
        return
    links = {f"bin/{applet}": "busybox" for applet in APPLETS}
    content = archive.layer({"bin/busybox": busybox()}, links)
    config = {"Cmd": ["/bin/sleep", "infinity"], "Env": ["PATH=/bin"], "User": "65532:65532"}
    path = places.run / "sandbox.tar"
    archive.write_image(path, settings.SANDBOX_IMAGE, content, config)
    ctr(places, programs, "images", "import", path)
    path.unlink()


def forget_pods(places: Places, programs: Path) -> int:
    """Remove the containers and sandboxes that containerd remembers; return how many there were."""
    containers = ctr(places, programs, "containers", "ls", "-q").split()
    sandboxes = [
        line.split()[0] for line in ctr(places, programs, "sandboxes", "ls").splitlines()[1:]
    ]
    for task in ctr(places, programs, "tasks", "ls", "-q").split():
        _try(places, programs, "tasks", "rm", "--force", task)
    if containers:
        _try(places, programs, "containers", "rm", *containers)
    if sandboxes:
        _try(places, programs, "sandboxes", "rm", "--force", *sandboxes)
    return len(containers) + len(sandboxes)


def _try(places: Places, programs: Path, *words: str) -> None:
    try:
        ctr(places, programs, *words)
    except CommandFailedError:
        return  # it went between the listing and now
