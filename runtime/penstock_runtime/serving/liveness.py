"""Whether the engine is stuck: a pure decision over its heartbeat and what waits for it.

A saturated engine is not a stuck one, so a running step may take 20 times its prediction. An engine without work
ticks once a second: one that is frozen while idle is found before a request meets it.
"""

from typing import Final

from penstock_runtime.engine.link.base import Heartbeat

STUCK_FACTOR: Final = 20.0
"""How many times its predicted duration a step may take."""
ASLEEP_SECONDS: Final = 5.0
"""A longer pause between two looks means that this process did not run: the engine may not have run either."""


def why_stuck(
    heartbeat: Heartbeat,
    waiting_since: float | None,
    patience_seconds: float,
    delay_seconds: float,
    now: float,
) -> str | None:
    """Return why the engine is stuck, or None while it is not.

    `waiting_since` is when the engine was first owed an answer without a break, None while it holds nothing;
    `delay_seconds` is how long it may hold an incomplete batch.
    """
    if heartbeat.busy:
        allowed = max(patience_seconds, STUCK_FACTOR * heartbeat.predicted_seconds)
        silent = now - heartbeat.last_step
        if silent <= allowed:
            return None
        predicted = heartbeat.predicted_seconds
        return (
            f"no progress for {silent:.0f} s in a step that was predicted to take {predicted:.3g} s"
        )
    silent = now - heartbeat.alive_at
    if silent > patience_seconds:
        return f"no sign of life for {silent:.0f} s while idle"
    if waiting_since is None:
        return None
    silent = now - max(heartbeat.last_step, waiting_since)
    if silent > patience_seconds + delay_seconds:
        return f"requests wait and no step ran for {silent:.0f} s"
    return None


class EngineWatch:
    """Looks at the engine now and then; time in which this process itself did not run counts for nothing."""

    def __init__(self, patience_seconds: float) -> None:
        self._patience_seconds = patience_seconds
        self._looked_at = float("-inf")
        self._awake_since = float("-inf")

    def look(
        self, heartbeat: Heartbeat, waiting_since: float | None, delay_seconds: float, now: float
    ) -> str | None:
        """Return why the engine is stuck, or None while it is not."""
        if now - self._looked_at > ASLEEP_SECONDS:
            self._awake_since = now
        self._looked_at = now
        seen = Heartbeat(
            max(heartbeat.last_step, self._awake_since),
            heartbeat.busy,
            heartbeat.predicted_seconds,
            max(heartbeat.alive_at, self._awake_since),
        )
        return why_stuck(seen, waiting_since, self._patience_seconds, delay_seconds, now)
