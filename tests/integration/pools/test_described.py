"""`kubectl describe pspool` shows problems, remedies and Events in order."""

import re

import pytest

from tests.integration.pools.test_children import BARE, await_children
from tests.support.kube.api import Api, Object
from tests.support.kube.pools import PoolHandle, until
from tests.support.kube.target import Target

pytestmark = [pytest.mark.integration, pytest.mark.long]


def stranger(pool: PoolHandle) -> Object:
    """Return a Service of another owner with the pool's name."""
    metadata = {"name": pool.name, "namespace": pool.namespace}
    spec = {"ports": [{"port": 80}], "selector": {"app": "foreign"}}
    return {"apiVersion": "v1", "kind": "Service", "metadata": metadata, "spec": spec}


def described(target: Target, pool: PoolHandle) -> str:
    return target.kubectl("describe", "pspool", pool.name, "-n", pool.namespace)


def test_problems_of_a_pool_and_their_end_appear_in_order(
    target: Target, api: Api, pool: PoolHandle
) -> None:
    api.create(stranger(pool))
    pool.apply(BARE)
    pool.await_condition("Ready", "False", "NameConflict", seconds=20)
    description = described(target, pool)
    assert re.search(r"Reason:\s+NameConflict", description)
    assert f'Service "{pool.name}"' in description or f"Service {pool.name}" in description

    api.delete(pool.children["Service"])
    await_children(api, pool)
    pool.await_zero(seconds=70)
    pool.edit({"template": {"annotations": {"example.com/turn": "2"}}})
    until(
        "the new template is reported",
        lambda: "TemplateAdopted" in described(target, pool),
        seconds=20,
    )
    _, _, events = described(target, pool).partition("\nEvents:")
    reasons = re.findall(r"^\s+(?:Normal|Warning)\s+(\w+)", events, re.MULTILINE)
    assert reasons.index("NameConflict") < reasons.index("TemplateAdopted")
    assert not re.search(r"Reason:\s+NameConflict", described(target, pool).partition("Events:")[0])
