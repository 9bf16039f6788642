"""State of the process that tests share: the operator's series of pools and policies."""

import sys

import pytest


@pytest.fixture(autouse=True)
def _no_series_of_other_tests() -> None:
    """Drop the series that earlier tests of this process left in the operator's registry."""
    reporter = sys.modules.get("penstock_operator.reconciler.reporter")
    if reporter is not None:
        reporter.forget_all()
