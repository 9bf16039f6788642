"""Timeouts of the operator's HTTP calls: long, because a busy machine answers its own tests late."""

import pytest

from penstock_operator.net import http


@pytest.fixture(autouse=True)
def patient(monkeypatch: pytest.MonkeyPatch) -> None:
    """Lengthen the timeout so that every call is answered."""
    monkeypatch.setattr(http, "CALL_SECONDS", 60.0)


@pytest.fixture
def impatient(monkeypatch: pytest.MonkeyPatch, patient: None) -> None:
    """Use the operator's own timeout, for servers that never answer."""
    monkeypatch.setattr(http, "CALL_SECONDS", 2.0)
