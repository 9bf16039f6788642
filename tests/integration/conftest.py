"""What may run side by side: one operator acts on every pool of the cluster, so its tests keep to one process."""

from pathlib import Path

import pytest

HERE = Path(__file__).parent
BESIDE = frozenset({"runtime", "signals"})
"""Rooms that stand on no cluster: their files go to whichever process is free."""


@pytest.hookimpl(tryfirst=True)
def pytest_collection_modifyitems(items: list[pytest.Item]) -> None:
    """Group the tests for `--dist loadgroup`, which reads the groups from the marks."""
    for item in items:
        if HERE in item.path.parents:
            room = item.path.relative_to(HERE).parts[0]
            group = str(item.path) if room in BESIDE else "cluster"
            item.add_marker(pytest.mark.xdist_group(group))
