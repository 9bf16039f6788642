"""Life cycle of the runtime process: listen, load, serve or fail with a message, stop."""

import asyncio
import json
import signal
from pathlib import Path
from typing import Any

import aiohttp

from tests.support.kube.pools import until


def test_the_cluster_port_answers_while_the_model_loads(launch: Any) -> None:
    pod = launch({"load_seconds": "600"})
    pod.listening()
    assert pod.get("/healthz") == (200, "ok\n")
    assert pod.get("/readyz") == (503, "Loading\n")
    assert pod.get("/metrics")[0] == 200
    assert pod.get("/control/v1/state")[0] == 503
    pod.process.send_signal(signal.SIGTERM)
    assert pod.stopped() == 0


def test_a_model_that_does_not_load_is_reported_in_the_termination_message(launch: Any) -> None:
    pod = launch({"a_milliseconds": "slow"})
    assert pod.stopped() == 1
    message = (pod.folder / "termination-log").read_text()
    assert message.startswith("ModelLoadFailed: ")
    assert "a_milliseconds" in message
    assert "\n" not in message


def test_a_missing_factory_is_reported_by_name(launch: Any) -> None:
    pod = launch(factory="no.such.module:create")
    assert pod.stopped() == 1
    assert "no.such.module" in (pod.folder / "termination-log").read_text()


def test_an_unknown_variable_is_rejected_before_anything_starts(launch: Any) -> None:
    pod = launch(PENSTOCK_COLOUR="red")
    assert pod.stopped() == 1
    assert "PENSTOCK_COLOUR is not known" in pod.log.read_text()


def test_a_pod_starts_under_the_limits_of_its_settings(launch: Any) -> None:
    limits = {
        "generation": 7,
        "maxBatchSize": 3,
        "maxQueueDepth": 9,
        "maxQueueDelayMilliseconds": 1,
        "discipline": "EarliestDeadlineFirst",
    }
    pod = launch({"a_milliseconds": "1"}, limits=limits)
    pod.ready()
    state = json.loads(pod.get("/control/v1/state")[1])
    limits_in_force = {"generation": state["generation"], **state["limits"]}
    assert {name: limits_in_force[name] for name in limits} == limits
    (pod.folder / "limits.json").write_text(
        json.dumps({**limits, "generation": 8, "maxBatchSize": 4})
    )
    assert pod.wait_for_log("limits taken from the settings file")["generation"] == 8
    until("in force", lambda: _batch_cap(pod) == 4)


def _batch_cap(pod: Any) -> int:
    return int(json.loads(pod.get("/control/v1/state")[1])["limits"]["maxBatchSize"])


async def test_a_dead_engine_fails_its_requests_and_ends_the_process(launch: Any) -> None:
    pod = launch(factory="deadly:create", PYTHONPATH=str(Path(__file__).parent))
    await asyncio.to_thread(pod.ready)
    url = f"{pod.client}/v2/models/demo/infer"
    async with aiohttp.ClientSession() as session:
        async with session.post(url, json=call(13)) as reply:
            assert reply.status == 500
            assert "the engine has died" in (await reply.json())["error"]
        assert pod.get("/healthz")[0] == 500
        assert pod.get("/readyz") == (503, "EngineDied\n")
        async with session.post(url, json=call(1)) as reply:
            assert (reply.status, reply.headers["Retry-After"]) == (503, "1")
    assert await asyncio.to_thread(pod.stopped) == 1
    assert (pod.folder / "termination-log").read_text().startswith("EngineDied: ")


def call(first: int) -> dict[str, Any]:
    row = [first] + [0] * 7
    return {"inputs": [{"name": "INPUT", "datatype": "FP32", "shape": [1, 8], "data": row}]}
