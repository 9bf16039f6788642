"""What is read so that a Prometheus can be asked, and what is said when it cannot be."""

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
    """The two kinds of objects, as the API server would answer; everything else is forbidden."""

    def __init__(self, **objects: Any) -> None:
        self.objects = objects
        self.asked: list[str] = []

    async def get(self, path: str) -> dict[str, Any]:
        self.asked.append(path)
        name = path.rsplit("/", 1)[1]
        if name not in self.objects:
            raise Rejected(403, "Forbidden", "may not")
        return {"data": self.objects[name]}


def accesses(objects: Objects) -> CredentialsCache:
    return CredentialsCache(objects, "penstock-system")  # type: ignore[arg-type]


async def headers(server: MetricsServer, **objects: Any) -> dict[str, str]:
    return dict((await accesses(Objects(**objects)).of(server)).headers)


async def test_a_token_and_a_tenant_go_with_every_question() -> None:
    server = MetricsServer(URL, credentials="reader", headers=(("X-Scope-OrgID", "a"),))
    assert await headers(server, reader=encoded({"token": "abc\n"})) == {
        "X-Scope-OrgID": "a",
        "Authorization": "Bearer abc",
    }


async def test_a_user_and_a_password_are_basic_authentication() -> None:
    given = await headers(
        MetricsServer(URL, credentials="reader"),
        reader=encoded({"username": "me", "password": "p:w"}),
    )
    assert base64.b64decode(given["Authorization"].removeprefix("Basic ")) == b"me:p:w"


async def test_objects_are_read_in_the_operators_own_namespace_once_a_minute(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    clock = [1000.0]
    monkeypatch.setattr(time, "monotonic", lambda: clock[0])
    objects = Objects(reader=encoded({"token": "one"}))
    held, server = accesses(objects), MetricsServer(URL, credentials="reader")
    for _ in range(3):
        await held.of(server)
    assert objects.asked == ["/api/v1/namespaces/penstock-system/secrets/reader"]
    objects.objects["reader"] = encoded({"token": "two"})
    clock[0] += 60
    assert (await held.of(server)).headers["Authorization"] == "Bearer two"


async def test_a_server_that_needs_nothing_reads_nothing() -> None:
    objects = Objects()
    assert (await accesses(objects).of(MetricsServer(URL))).tls is None
    assert objects.asked == []


@pytest.mark.parametrize(
    ("server", "objects", "words"),
    [
        (MetricsServer(URL, credentials="gone"), {}, "Secret gone of penstock-system cannot be read"),
        (MetricsServer(URL, credentials="s"), {"s": encoded({"user": "x"})}, "neither a token nor"),
        (MetricsServer(URL, credentials="s"), {"s": {"token": "%%"}}, "key token is no text"),
        (MetricsServer(URL, credentials="s"), {"s": encoded({"token": "a\nb"})}, "what no header may"),
        (MetricsServer(URL, KeyOf("ca", "k")), {"ca": {"x": "y"}}, "has no key k"),
        (MetricsServer(URL, KeyOf("ca", "k")), {"ca": {"k": "nothing"}}, "no PEM certificate"),
    ],
)  # fmt: skip
async def test_what_is_missing_is_named(
    server: MetricsServer, objects: dict[str, Any], words: str
) -> None:
    with pytest.raises(CallFailed, match=words):
        await accesses(Objects(**objects)).of(server)


def test_an_access_shows_no_secret() -> None:
    assert "abc" not in repr(Credentials(URL, {"Authorization": "Bearer abc"}))
