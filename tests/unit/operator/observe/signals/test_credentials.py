"""Credentials for Prometheus: the objects that are read, and messages about unusable ones."""

import base64
import time
from typing import Any

import pytest

from penstock_operator.decide.spec.prometheus import KeyOf, MetricsServer
from penstock_operator.errors import Rejected
from penstock_operator.net.http import CallFailed
from penstock_operator.observe.signals.credentials import Credentials, CredentialsCache

URL = "https://prometheus:9090"


def encoded(values: dict[str, str]) -> dict[str, str]:
    return {key: base64.b64encode(text.encode()).decode() for key, text in values.items()}


class Objects:
    """Fake API server with objects by name; every other is forbidden."""

    def __init__(self, **objects: Any) -> None:
        self.objects = objects
        self.requests: list[str] = []

    async def get(self, path: str) -> dict[str, Any]:
        self.requests.append(path)
        name = path.rsplit("/", 1)[1]
        if name not in self.objects:
            raise Rejected(403, "Forbidden", "may not")
        return {"data": self.objects[name]}


def cache_of(objects: Objects) -> CredentialsCache:
    return CredentialsCache(objects, "penstock-system")  # type: ignore[arg-type]


async def headers(server: MetricsServer, **objects: Any) -> dict[str, str]:
    return dict((await cache_of(Objects(**objects)).of(server)).headers)


async def test_a_token_and_a_tenant_header_are_sent() -> None:
    server = MetricsServer(URL, credentials="reader", headers=(("X-Scope-OrgID", "a"),))
    assert await headers(server, reader=encoded({"token": "abc\n"})) == {
        "X-Scope-OrgID": "a",
        "Authorization": "Bearer abc",
    }


async def test_a_username_and_a_password_are_basic_authentication() -> None:
    sent = await headers(
        MetricsServer(URL, credentials="reader"),
        reader=encoded({"username": "me", "password": "p:w"}),
    )
    assert base64.b64decode(sent["Authorization"].removeprefix("Basic ")) == b"me:p:w"


async def test_objects_are_read_in_the_operators_own_namespace_once_a_minute(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    clock = [1000.0]
    monkeypatch.setattr(time, "monotonic", lambda: clock[0])
    objects = Objects(reader=encoded({"token": "one"}))
    credentials, server = cache_of(objects), MetricsServer(URL, credentials="reader")
    for _ in range(3):
        await credentials.of(server)
    assert objects.requests == ["/api/v1/namespaces/penstock-system/secrets/reader"]
    objects.objects["reader"] = encoded({"token": "two"})
    clock[0] += 60
    assert (await credentials.of(server)).headers["Authorization"] == "Bearer two"


async def test_a_server_without_credentials_causes_no_request() -> None:
    objects = Objects()
    assert (await cache_of(objects).of(MetricsServer(URL))).tls is None
    assert objects.requests == []


@pytest.mark.parametrize(
    ("server", "objects", "words"),
    [
        (MetricsServer(URL, credentials="gone"), {}, "Secret gone in namespace penstock-system cannot be read"),
        (MetricsServer(URL, credentials="s"), {"s": encoded({"user": "x"})}, "neither the key token nor"),
        (MetricsServer(URL, credentials="s"), {"s": {"token": "%%"}}, "key token is not base64-encoded UTF-8"),
        (MetricsServer(URL, credentials="s"), {"s": encoded({"token": "a\nb"})}, "that are not allowed in a header"),
        (MetricsServer(URL, KeyOf("ca", "k")), {"ca": {"x": "y"}}, "has no key k"),
        (MetricsServer(URL, KeyOf("ca", "k")), {"ca": {"k": "nothing"}}, "no PEM certificate"),
    ],
)  # fmt: skip
async def test_the_message_names_the_unusable_object(
    server: MetricsServer, objects: dict[str, Any], words: str
) -> None:
    with pytest.raises(CallFailed, match=words):
        await cache_of(Objects(**objects)).of(server)


def test_the_repr_contains_no_secret() -> None:
    assert "abc" not in repr(Credentials(URL, {"Authorization": "Bearer abc"}))
