"""The environment of a program under test."""

import os


def inherited() -> dict[str, str]:
    """Return this process's environment without settings of Penstock's programs: they refuse those of another program."""
    return {name: value for name, value in os.environ.items() if not name.startswith("PENSTOCK_")}
