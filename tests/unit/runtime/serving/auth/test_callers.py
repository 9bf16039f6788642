"""Identification of callers: a header lowers the grants of a key, and never raises them."""

import json
from ipaddress import ip_network
from pathlib import Path

import pytest

from penstock_api.api_keys import ApiKeyRing
from penstock_runtime.engine.queue.disciplines import priority_class
from penstock_runtime.errors import BadInput, RateExceeded, Unauthenticated
from penstock_runtime.serving.auth.callers import ANYBODY, Callers
from penstock_runtime.serving.auth.rate_limit import RateBucket

KEY = {"key": "secret-of-a", "tenant": "a", "bestPriority": 3, "maxTokens": 100}


class Clock:
    """A clock that the test sets."""

    now = 0.0

    def __call__(self) -> float:
        return self.now


def ring(tmp_path: Path, *keys: dict[str, object]) -> ApiKeyRing:
    path = tmp_path / "keys.json"
    path.write_text(json.dumps({"keys": keys}))
    key_ring = ApiKeyRing(path)
    key_ring.reload()
    return key_ring


def bearer(key: str, **more: str) -> dict[str, str]:
    return {"Authorization": f"Bearer {key}", **more}


def test_a_key_sets_its_tenant_and_its_highest_priority(tmp_path: Path) -> None:
    callers = Callers(ring(tmp_path, KEY), (), Clock())
    caller = callers.identify(bearer("secret-of-a"), "10.0.0.1")
    assert (caller.tenant, caller.max_tokens) == ("a", 100)
    assert caller.granted_priority(None) == 3
    assert caller.granted_priority(7) == 7
    assert caller.granted_priority(1) == 3


@pytest.mark.parametrize(("best", "unasked"), [(1, 1), (2, 2), (10, 10), (None, 0)])
def test_the_default_class_is_that_of_the_key(
    tmp_path: Path, best: int | None, unasked: int
) -> None:
    named = {name: value for name, value in KEY.items() if name != "bestPriority"}
    granted = {} if best is None else {"bestPriority": best}
    callers = Callers(ring(tmp_path, {**named, **granted}), (), Clock())
    caller = callers.identify(bearer("secret-of-a"), None)
    assert [caller.granted_priority(requested) for requested in (None, 0)] == [unasked, unasked]
    assert caller.granted_priority(1) == (best or 1)


def test_the_key_with_the_highest_class_is_served_first_by_default(
    tmp_path: Path,
) -> None:
    keys: list[dict[str, object]] = [
        {"key": f"secret-of-{best}", "tenant": "a", "bestPriority": best} for best in (3, 1, 10)
    ]
    callers = Callers(ring(tmp_path, *keys), (), Clock())
    identities = {best: callers.identify(bearer(f"secret-of-{best}"), None) for best in (10, 3, 1)}
    classes = {
        best: priority_class(identity.granted_priority(0)) for best, identity in identities.items()
    }
    assert sorted(classes, key=classes.__getitem__) == [1, 3, 10]


def test_a_header_lowers_a_grant_and_never_raises_it(tmp_path: Path) -> None:
    callers = Callers(ring(tmp_path, KEY), (), Clock())
    lower = callers.identify(bearer("secret-of-a", **{"X-Penstock-Priority": "5"}), None)
    higher = callers.identify(bearer("secret-of-a", **{"X-Penstock-Priority": "1"}), None)
    assert (lower.granted_priority(None), higher.granted_priority(None)) == (5, 3)
    with pytest.raises(BadInput, match="X-Penstock-Priority"):
        callers.identify(bearer("secret-of-a", **{"X-Penstock-Priority": "high"}), None)


def test_a_key_overrides_the_tenant_in_a_header(tmp_path: Path) -> None:
    callers = Callers(ring(tmp_path, KEY), (ip_network("10.0.0.0/8"),), Clock())
    caller = callers.identify(bearer("secret-of-a", **{"X-Penstock-Tenant": "b"}), "10.0.0.1")
    assert caller.tenant == "a"


@pytest.mark.parametrize("headers", [{}, bearer("other-secret"), {"Authorization": "Basic eA=="}])
def test_requests_without_a_known_key_are_rejected(tmp_path: Path, headers: dict[str, str]) -> None:
    with pytest.raises(Unauthenticated):
        Callers(ring(tmp_path, KEY), (), Clock()).identify(headers, None)


def test_without_keys_only_headers_of_trusted_proxies_count() -> None:
    callers = Callers(None, (ip_network("10.1.0.0/16"),), Clock())
    headers = {"X-Penstock-Tenant": "b", "X-Penstock-Priority": "2"}
    trusted = callers.identify(headers, "10.1.2.3")
    assert (trusted.tenant, trusted.granted_priority(None)) == ("b", 2)
    assert callers.identify(headers, "10.2.0.1") == ANYBODY
    assert callers.identify(headers, "::ffff:10.1.0.9").tenant == "b"


def test_a_tenant_that_is_not_utf8_is_rejected() -> None:
    callers = Callers(None, (ip_network("10.1.0.0/16"),), Clock())
    tenant = b"caf\xe9".decode("utf-8", "surrogateescape")  # as aiohttp reads it
    with pytest.raises(BadInput, match="X-Penstock-Tenant"):
        callers.identify({"X-Penstock-Tenant": tenant}, "10.1.2.3")


def test_a_rate_is_limited_with_retry_after(tmp_path: Path) -> None:
    clock = Clock()
    callers = Callers(ring(tmp_path, {**KEY, "requestsPerMinute": 6}), (), clock)
    callers.identify(bearer("secret-of-a"), None)
    with pytest.raises(RateExceeded) as rejected:
        callers.identify(bearer("secret-of-a"), None)
    assert rejected.value.retry_after_seconds == pytest.approx(10)
    clock.now = 10.0
    callers.identify(bearer("secret-of-a"), None)


def test_a_bucket_holds_ten_seconds_and_no_more() -> None:
    bucket = RateBucket(60, 0.0)
    assert [bucket.take(1000.0) for _ in range(10)] == [0.0] * 10
    assert bucket.take(1000.0) == pytest.approx(1.0)


def test_keys_are_reloaded_and_a_broken_file_changes_nothing(tmp_path: Path) -> None:
    keys = ring(tmp_path, KEY)
    (tmp_path / "keys.json").write_text(json.dumps({"keys": [{**KEY, "key": "new-secret-of-a"}]}))
    keys.reload()
    assert keys.find("secret-of-a") is None
    assert keys.find("new-secret-of-a") is not None
    (tmp_path / "keys.json").write_text("{")
    keys.reload()
    assert keys.find("new-secret-of-a") is not None


def test_a_key_is_not_logged(tmp_path: Path) -> None:
    caller = ring(tmp_path, KEY).find("secret-of-a")
    assert "secret-of-a" not in repr(caller)
