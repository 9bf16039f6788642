import weakref
from collections.abc import Sequence

from penstock_runtime.engine.dynamic.loop import serve
from penstock_runtime.engine.messages import Settled, Submit, ToEngine
from tests.unit.runtime.engine.dynamic.builders import Doubling, a_request, an_engine


class OneRequest:
    """An inbox with one request; once empty, it records whether the request's tensor is still referenced."""

    def __init__(self) -> None:
        request = a_request("a")
        self._tensor = weakref.ref(request.inputs["x"])
        self._left: list[Sequence[ToEngine]] = [(), (Submit((request,)),)]
        self.kept = True

    def receive(self, until: float | None) -> Sequence[ToEngine] | None:
        """Return the request, then nothing."""
        if self._left:
            return self._left.pop()
        assert until is not None, "it ticks while it waits"
        self.kept = self._tensor() is not None
        return None


class NoPulse:
    """A heartbeat that records nothing."""

    def begin(self, predicted_seconds: float) -> None:
        """Do nothing."""

    def tick(self) -> None:
        """Do nothing."""

    def end(self) -> None:
        """Do nothing."""

    def tick_idle(self) -> None:
        """Do nothing."""


def test_an_engine_with_nothing_to_do_keeps_no_tensors() -> None:
    model, inbox, settled = Doubling(), OneRequest(), list[Settled]()
    serve(an_engine(model), inbox, settled.append, NoPulse(), model.clock)
    assert [name for batch in settled for name, _ in batch.ends] == ["a"]
    assert not inbox.kept
