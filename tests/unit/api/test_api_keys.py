"""The ring of API keys as the batch service searches it; how the runtime does is in `tests/unit/runtime/http/test_keys.py`."""

import json
from pathlib import Path

import pytest

from penstock_api.api_keys import ApiKeyRing, digest, presented_key

KEYS = [
    {"key": "first-of-search", "tenant": "search"},
    {"key": "second-of-search", "tenant": "search"},
    {"key": "only-of-chat", "tenant": "chat"},
]


@pytest.fixture
def ring(tmp_path: Path) -> ApiKeyRing:
    path = tmp_path / "keys.json"
    path.write_text(json.dumps({"keys": KEYS}))
    keys = ApiKeyRing(path)
    keys.reload()
    return keys


def test_a_tenant_has_the_preferred_key_or_another_of_its_own(ring: ApiKeyRing) -> None:
    def key(tenant: str, preferred: str) -> str | None:
        match = ring.of_tenant(tenant, digest(preferred).hex())
        return None if match is None else match.key

    assert key("search", "second-of-search") == "second-of-search"
    assert key("search", "a-revoked-key") == "first-of-search"
    assert key("chat", "first-of-search") == "only-of-chat"
    assert key("unknown", "first-of-search") is None


def test_a_ring_is_loaded_once_a_valid_file_was_read(tmp_path: Path) -> None:
    path = tmp_path / "keys.json"
    keys = ApiKeyRing(path)
    for content, loaded in (("{", False), (json.dumps({"keys": KEYS}), True), ("{", True)):
        path.write_text(content)
        keys.reload()
        assert keys.loaded is loaded
    assert len(keys.keys) == len(KEYS)


def test_unknown_fields_are_ignored_with_a_warning_that_has_their_names_alone(
    tmp_path: Path, caplog: pytest.LogCaptureFixture
) -> None:
    path = tmp_path / "keys.json"
    misspelt = {"key": "a-secret-text", "tenant": "chat", "requestPerMinute": 6, "note": "private"}
    path.write_text(json.dumps({"keys": [*KEYS, misspelt], "version": 3}))
    ring = ApiKeyRing(path)
    ring.reload()
    ring.reload()
    (warning,) = [each.getMessage() for each in caplog.records if each.levelname == "WARNING"]
    assert "note, requestPerMinute, version:" in warning
    assert "a-secret-text" not in warning
    assert "private" not in warning
    assert ring.find("a-secret-text") is not None


def test_a_file_that_has_one_key_twice_is_refused_and_names_its_entries(
    tmp_path: Path, caplog: pytest.LogCaptureFixture
) -> None:
    path = tmp_path / "keys.json"
    again = {"key": KEYS[0]["key"], "tenant": "other"}
    path.write_text(json.dumps({"keys": [*KEYS, again]}))
    ring = ApiKeyRing(path)
    ring.reload()
    assert not ring.loaded
    assert "keys[0] and keys[3] have the same key: remove one" in caplog.text
    assert KEYS[0]["key"] not in caplog.text


def test_a_key_is_presented_in_either_header() -> None:
    assert presented_key({"Authorization": "bearer  abc "}) == "abc"
    assert presented_key({"X-Api-Key": "abc"}) == "abc"
    assert presented_key({"Authorization": "Basic abc"}) == ""
