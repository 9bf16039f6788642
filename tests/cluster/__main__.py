"""`python3 -m tests.cluster`: the test cluster's switch."""

import argparse
import sys
from collections.abc import Callable

from tests.cluster import life, tools
from tests.cluster.images import make
from tests.cluster.places import Places


def main() -> int:
    """Run one command; its errors are lines, not traces."""
    commands: dict[str, Callable[[Places], None]] = {
        "up": life.up,
        "down": life.down,
        "status": show_status,
        "tools": build_tools,
        "images": build_images,
    }
    parser = argparse.ArgumentParser(prog="python3 -m tests.cluster", description=__doc__)
    parser.add_argument("command", choices=commands)
    chosen = parser.parse_args().command
    commands[chosen](Places.from_env())
    return 0


def show_status(places: Places) -> None:
    """Print the state of every part."""
    for name, state in life.status(places).items():
        print(f"{name:26} {state}")


def build_tools(places: Places) -> None:
    """Build what the charts' tests need and print where all commands are."""
    for tool in tools.CHART_TOOLS:
        tools.build_tool(places, tool)
    print(places.commands)


def build_images(places: Places) -> None:
    """Build and import the images, and print their names."""
    for name, image in make.make_images(places).items():
        print(f"{name}={image}")


if __name__ == "__main__":
    sys.exit(main())
