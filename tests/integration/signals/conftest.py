"""Raises the HTTP timeout, because servers on the busy test machine answer late."""

import pytest

from penstock_operator.net import http


@pytest.fixture(autouse=True)
def patient(monkeypatch: pytest.MonkeyPatch) -> None:
    """Allow a minute per call: Prometheus hashes a password for seconds."""
    monkeypatch.setattr(http, "CALL_SECONDS", 60.0)
