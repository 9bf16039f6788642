"""`kubectl penstock`: kubectl finds `kubectl-penstock` on the PATH and hands it the rest of the line."""

import sys
from collections.abc import Sequence

from rich.console import Console

from penstock_kubectl.cli import parser
from penstock_kubectl.errors import PluginError
from penstock_kubectl.explain import explain
from penstock_kubectl.simulate import simulate

LEAST_WIDTH = 140
"""Where nobody tells how wide the terminal is, tables stay whole."""
COMMANDS = {"explain": explain, "simulate": simulate}


def main(argv: Sequence[str] | None = None) -> int:
    """Run one command; return the exit status."""
    args = parser().parse_args(argv)
    console = Console()
    if not console.is_terminal:
        console.width = max(console.width, LEAST_WIDTH)
    try:
        return COMMANDS[args.command](args, console)
    except (PluginError, OSError) as error:
        said = Console(stderr=True, soft_wrap=True)
        said.print(f"error: {error}", style="red", markup=False, highlight=False)
        return 1


if __name__ == "__main__":
    sys.exit(main())
