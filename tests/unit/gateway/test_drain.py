"""A drain goes on while Envoy lives, however slowly it answers."""

from collections.abc import Iterator
from pathlib import Path

import pytest

from penstock_gateway import drain as module
from penstock_gateway.drain import drain
from penstock_gateway.envoy_admin import EnvoyAdmin
from penstock_gateway.errors import EnvoyGone, EnvoyUnavailable

SLOW, GONE = EnvoyUnavailable("GET /stats: TimeoutError"), EnvoyGone("no such socket")


class ScriptedAdmin(EnvoyAdmin):
    """An admin interface with these answers to the calls for requests in flight, and none at first to `late` steps."""

    def __init__(self, counts: list[int | EnvoyUnavailable], late: int = 0) -> None:
        self.calls: list[str] = []
        self._script, self._late = iter(counts), late

    async def fail_readiness(self) -> None:
        """Fail as often as scripted."""
        self.calls.append("fail_readiness")
        if self._late:
            self._late -= 1
            raise SLOW

    async def drain_listeners(self) -> None:
        """Record the call."""
        self.calls.append("drain_listeners")

    async def quit(self) -> None:
        """Record the call."""
        self.calls.append("quit")

    async def active_requests(self) -> int:
        """Return or raise the next answer."""
        count = next(self._script)
        if isinstance(count, EnvoyUnavailable):
            raise count
        return count


@pytest.fixture(autouse=True)
def _no_pause(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(module, "CHECK_SECONDS", 0.0)


def clock() -> Iterator[float]:
    """Count the seconds of a clock that each call moves by one."""
    second = 0.0
    while True:
        second += 1.0
        yield second


async def drained(admin: EnvoyAdmin, *, drain_seconds: float = 600.0) -> int:
    seconds = clock()
    return await drain(admin, 0.0, drain_seconds, lambda: next(seconds))


async def test_a_slow_answer_does_not_end_a_drain() -> None:
    admin = ScriptedAdmin([7, SLOW, 7, GONE, 7, 0])
    assert await drained(admin) == 0
    assert admin.calls == ["fail_readiness", "drain_listeners", "quit"]


async def test_a_step_without_an_answer_is_repeated() -> None:
    admin = ScriptedAdmin([0], late=2)
    assert await drained(admin) == 0
    assert admin.calls == [*["fail_readiness"] * 3, "drain_listeners", "quit"]


async def test_an_unknown_count_is_not_taken_for_none() -> None:
    admin = ScriptedAdmin([0, SLOW, 3, 3, 3, 3, 3, 3])
    seconds = clock()
    assert await drain(admin, 2.0, 6.0, lambda: next(seconds)) == 3


async def test_a_drain_ends_with_envoy(caplog: pytest.LogCaptureFixture) -> None:
    admin = ScriptedAdmin([7, GONE, GONE])
    assert await drained(admin) == 7
    assert "quit" not in admin.calls
    assert "Envoy ended before its drain" in caplog.text


async def test_a_socket_without_a_listener_is_gone(tmp_path: Path) -> None:
    admin = EnvoyAdmin(tmp_path / "admin.sock")
    with pytest.raises(EnvoyGone, match="quitquitquit"):
        await admin.quit()
    await admin.close()
