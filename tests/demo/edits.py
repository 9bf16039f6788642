"""Live edits by kubectl, and the time until they take effect."""

import shlex
import time
from collections.abc import Callable
from typing import Any

from tests.demo.outcome import EditTaken
from tests.demo.story import Edit
from tests.support.kube.pools import PoolHandle, WaitTimeoutError, until
from tests.support.kube.target import Target

MAX_EDIT_SECONDS = 30.0


def make(target: Target, pool: PoolHandle, edit: Edit, second: int) -> EditTaken:
    """Run the edit and wait until every pod has acknowledged it, or for a policy, until the operator applies it."""
    before = pool.status().get("batch", {}).get("generation", 0)
    began = time.monotonic()
    target.kubectl(*edit.command())
    typed = f"kubectl {shlex.join(edit.command())}"
    if edit.kind == "pspool":
        seconds = _seconds(began, lambda: pool.await_acknowledged(before))
        return EditTaken(typed, seconds, "", second, edit.label)
    path = f"/apis/penstock.dev/v1alpha1/inferencepolicies/{edit.name}"
    generation = pool.api.request("GET", path)["metadata"]["generation"]
    taken = _seconds(
        began, lambda: until("policy applied", lambda: _applied(pool, edit, generation))
    )
    effect = "" if taken is None else f"in the pool's effective spec after {taken:.1f} s"
    return EditTaken(typed, None, effect, second, edit.label)


def _applied(pool: PoolHandle, edit: Edit, generation: int) -> bool:
    policies = pool.status().get("policies", [])
    return {"name": edit.name, "generation": generation} in policies


def _seconds(began: float, wait: Callable[[], Any]) -> float | None:
    try:
        wait()
    except WaitTimeoutError:
        return None
    return round(time.monotonic() - began, 2)
