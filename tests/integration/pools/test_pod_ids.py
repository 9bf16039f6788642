"""An operator whose platform assigns user and group IDs: existing pools keep theirs, new ones have none."""

import pytest

from tests.integration.pools.test_children import BARE, await_children
from tests.support.kube.api import Api, Object
from tests.support.kube.operator_process import OperatorProcess
from tests.support.kube.pools import PoolHandle

pytestmark = pytest.mark.integration

IDS = {"runAsUser", "runAsGroup", "fsGroup"}


def context(api: Api, pool: PoolHandle) -> Object:
    """Return the security context of the pool's pod template."""
    deployment = api.request("GET", pool.children["Deployment"])
    given: Object = deployment["spec"]["template"]["spec"]["securityContext"]
    return given


def test_another_origin_of_ids_applies_to_new_templates_only(
    api: Api, namespace: str, operator: OperatorProcess
) -> None:
    before, after = PoolHandle(api, namespace, "before"), PoolHandle(api, namespace, "after")
    before.apply(BARE)
    await_children(api, before)
    try:
        with operator.down():
            operator.settings["PENSTOCK_POOL_IDS"] = "Platform"
        after.apply(BARE)
        await_children(api, after)
        before.await_condition("UpToDate", "False", "NewTemplateAvailable", seconds=20)
        assert context(api, before).keys() >= IDS
        assert context(api, after).keys() & IDS == set()
        assert context(api, after)["runAsNonRoot"] is True
    finally:
        with operator.down():
            del operator.settings["PENSTOCK_POOL_IDS"]
