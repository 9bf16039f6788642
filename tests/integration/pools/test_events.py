"""Events of a burst are one object on a real API server, which counts and names every step."""

import pytest

from tests.support.kube.api import Api, Object
from tests.support.kube.pools import PoolHandle, emulated, until

pytestmark = pytest.mark.integration

STEPS = ("Replicas 0 -> 1", "Replicas 1 -> 3", "Replicas 3 -> 4")
NOWHERE = {"nodeSelector": {"penstock-tests/nowhere": "true"}}


def scale_ups(api: Api, pool: PoolHandle) -> list[Object]:
    events: list[Object] = api.list(f"/api/v1/namespaces/{pool.namespace}/events")
    return [event for event in events if event["reason"] == "ScaledUp"]


def test_steps_in_quick_succession_share_an_event_that_names_them_all(
    api: Api, pool: PoolHandle
) -> None:
    pool.apply(emulated(replicas=0, template=NOWHERE))
    pool.await_zero()
    for count in (1, 3, 4):
        pool.edit({"replicas": count})
        until("the step is decided", lambda n=count: pool.status().get("desiredReplicas") == n)  # type: ignore[misc]

    def complete() -> bool | str:
        messages = "; ".join(event["message"] for event in scale_ups(api, pool))
        return all(step in messages for step in STEPS) or messages

    until("every step is in an Event", complete, seconds=60)
    (event,) = scale_ups(api, pool)
    assert event["count"] == len(STEPS)
    assert event["involvedObject"]["name"] == pool.name
