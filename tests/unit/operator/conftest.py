"""The operator asks servers of this process: a busy machine answers late, and only who never answers is silent."""

import pytest

from penstock_operator.net import http


@pytest.fixture(autouse=True)
def patient(monkeypatch: pytest.MonkeyPatch) -> None:
    """Let every call be answered."""
    monkeypatch.setattr(http, "CALL_SECONDS", 60.0)


@pytest.fixture
def impatient(monkeypatch: pytest.MonkeyPatch, patient: None) -> None:
    """Wait as long as the operator does for a server that never answers."""
    monkeypatch.setattr(http, "CALL_SECONDS", 2.0)
