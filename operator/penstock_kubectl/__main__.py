"""Entry point of `kubectl penstock`, which kubectl runs as `kubectl-penstock` from the PATH."""

import sys
from collections.abc import Sequence

from rich.console import Console

from penstock_kubectl.batches import batches
from penstock_kubectl.cli import parser
from penstock_kubectl.errors import PluginError
from penstock_kubectl.explain import explain
from penstock_kubectl.simulate.command import simulate
from penstock_kubectl.tune.command import tune

MIN_WIDTH = 160
"""Minimum width of the output if it is not a terminal, so that tables are not truncated."""
COMMANDS = {"batches": batches, "explain": explain, "simulate": simulate, "tune": tune}


def main(argv: Sequence[str] | None = None) -> int:
    """Run one command; return the exit status."""
    args = parser().parse_args(argv)
    console = Console()
    if not console.is_terminal:
        console.width = max(console.width, MIN_WIDTH)
    try:
        return COMMANDS[args.command](args, console)
    except (PluginError, OSError) as error:
        stderr = Console(stderr=True, soft_wrap=True)
        stderr.print(f"error: {error}", style="red", markup=False, highlight=False)
        return 1


if __name__ == "__main__":
    sys.exit(main())
