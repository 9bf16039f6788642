"""Servers that share a busy machine with the tests answer late; they are waited for."""

import pytest

from penstock_operator.net import http


@pytest.fixture(autouse=True)
def patient(monkeypatch: pytest.MonkeyPatch) -> None:
    """Let every call be answered, also one whose password a Prometheus hashes for seconds."""
    monkeypatch.setattr(http, "CALL_SECONDS", 60.0)
