"""No Secret data reaches the operator's debug log, an Event, a status or a child."""

import base64
import json
from pathlib import Path

import pytest

from penstock_api import names
from tests.integration.pools.test_children import BARE, await_children
from tests.support.kube.api import Api, Object
from tests.support.kube.operator_process import OperatorProcess
from tests.support.kube.pools import PoolHandle, until

pytestmark = pytest.mark.integration

MARK = "mark-of-a-tenants-secret"


def secret(namespace: str) -> Object:
    head = {"apiVersion": "v1", "kind": "Secret", "type": "Opaque"}
    metadata = {"name": "hidden", "namespace": namespace}
    return {**head, "metadata": metadata, "stringData": {"token": MARK}}


@pytest.mark.timeout(400)
def test_the_operator_discloses_no_secret(
    api: Api, pool: PoolHandle, operator: OperatorProcess, kubeconfig: Path
) -> None:
    api.create(secret(pool.namespace))
    reference = {"secretKeyRef": {"name": "hidden", "key": "token"}}
    environment = [{"name": "TOKEN", "valueFrom": reference}]
    key_path = f"/api/v1/namespaces/{operator.namespace}/secrets/{names.SIGNING_KEY_SECRET}"
    operator.stop()
    loud = operator.replica("loud")
    loud.settings = {"PENSTOCK_LOG_LEVEL": "DEBUG"}
    try:
        loud.start()
        pool.apply({**BARE, "template": {"container": {"env": environment}}})
        await_children(api, pool, seconds=60)
        api.merge(key_path, {"data": {"keys.json": base64.b64encode(MARK.encode()).decode()}})
        pool.edit({"batching": {"maxQueueDepth": 81}})
        pool.await_zero(seconds=60)
        loud.stop()
        loud.start()  # the Secret is now invalid, so the operator creates new keys
        until("new keys are stored", lambda: MARK not in str(keys(api, key_path)), seconds=60)
        pool.edit({"batching": {"maxQueueDepth": 82}})
        pool.await_zero(seconds=60)
    finally:
        if loud.running:
            loud.stop()
        operator.start()

    private = [key["pem"] for key in keys(api, key_path)]
    events = api.list(f"/api/v1/namespaces/{pool.namespace}/events")
    children = [api.request("GET", path) for path in pool.children.values()]
    token = api.request("GET", key_path)["data"]["keys.json"]
    output = loud.log() + operator.log() + json.dumps([events, pool.get(), children])
    assert "watching" in output
    assert private
    lines = [line for pem in private for line in pem.splitlines() if line and "---" not in line]
    credentials = [
        line.split(": ", 1)[1].strip('"')
        for line in kubeconfig.read_text().splitlines()
        if line.strip().startswith(("client-key-data:", "token:"))
    ]
    for word in (MARK, "PRIVATE KEY", "eyJ", token, *lines, *credentials):
        assert word not in output, word


def keys(api: Api, path: str) -> list[Object]:
    """Return the stored signing keys; invalid content is returned as a single key."""
    text = base64.b64decode(api.request("GET", path)["data"]["keys.json"]).decode()
    try:
        stored: list[Object] = json.loads(text)
    except ValueError:
        return [{"pem": text}]
    return stored
