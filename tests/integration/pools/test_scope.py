"""Scope Namespaces, with exactly the chart's Roles: what is served, by whom, and what a lost namespace costs."""

from collections.abc import Iterator
from contextlib import ExitStack
from pathlib import Path

import pytest

from tests.integration.pools.installations import InstallContext
from tests.integration.pools.test_children import BARE, await_children
from tests.integration.pools.test_leading import leads
from tests.support.kube import namespaces
from tests.support.kube.api import Api, Object
from tests.support.kube.operator_process import OperatorProcess
from tests.support.kube.pools import PoolHandle, until
from tests.support.kube.target import Target

pytestmark = [pytest.mark.integration, pytest.mark.timeout(240)]

LEASES = "/apis/coordination.k8s.io/v1/namespaces/{}/leases/penstock-pools"
BINDINGS = "/apis/rbac.authorization.k8s.io/v1/namespaces/{}/rolebindings"


@pytest.fixture
def stage(
    target: Target, api: Api, kubeconfig: Path, operator: OperatorProcess, tmp_path: Path
) -> Iterator[InstallContext]:
    """The stage without the operator that serves the whole cluster."""
    with operator.down():
        yield InstallContext(target, api, kubeconfig, tmp_path)


@pytest.fixture
def spaces(api: Api) -> Iterator[tuple[str, str, str, str]]:
    """Two homes of installations, and two namespaces to serve."""
    with ExitStack() as stack:
        made = [
            stack.enter_context(namespaces.namespace(api, one))
            for one in ("home-1", "home-2", "team-a", "team-b")
        ]
        yield (made[0], made[1], made[2], made[3])


def test_what_is_named_is_served_and_nothing_else(
    api: Api, stage: InstallContext, spaces: tuple[str, str, str, str]
) -> None:
    home, _, served, other = spaces
    with stage.installed(home, (served,)) as operator:
        pools = [PoolHandle(api, one, "chat") for one in (served, other)]
        for one in pools:
            one.apply(BARE)
        operator.start()
        await_children(api, pools[0])
        pools[0].await_condition("Ready", "True", seconds=20)
        pools[0].await_condition("PolicyApplied", "True", seconds=5)
        pools[0].edit({"template": {"annotations": {"example.com/turn": "2"}}})
        pools[0].await_condition("UpToDate", "True", seconds=10)
        assert pools[1].status() == {}
        assert api.get(pools[1].children["Deployment"]) is None
        assert operator.running
    assert "403" not in operator.log()
    assert "Forbidden" not in operator.log()


def test_policies_that_may_not_be_read_are_said_not_to_apply(
    api: Api, stage: InstallContext, spaces: tuple[str, str, str, str]
) -> None:
    home, _, served, _ = spaces
    with stage.installed(home, (served,), "rbac.readPolicies=false") as operator:
        pool = PoolHandle(api, served, "chat")
        pool.apply(BARE)
        operator.start()
        pool.await_condition("PolicyApplied", "Unknown", "PoliciesNotReadable", seconds=20)
        pool.await_condition("Ready", "True", seconds=20)
    assert "rbac.readPolicies" in operator.log()


@pytest.mark.long
def test_of_two_installations_that_name_a_namespace_one_acts_there(
    api: Api, stage: InstallContext, spaces: tuple[str, str, str, str]
) -> None:
    first, second, shared, own = spaces
    both, alone = PoolHandle(api, shared, "chat"), PoolHandle(api, own, "chat")
    with (
        stage.installed(first, (shared,)) as holder,
        stage.installed(second, (shared, own)) as other,
    ):
        holder.start()
        until("the first holds the Lease", lambda: bool(holder_of(api, shared)), seconds=20)
        other.start()
        both.apply(BARE)
        alone.apply(BARE)
        for one in (both, alone):
            await_children(api, one)
            one.await_condition("Ready", "True", seconds=20)
        assert holder_of(api, shared).startswith(f"{first}_")
        assert holder_of(api, own).startswith(f"{second}_")
        assert not [
            line for line in other.log().splitlines() if shared in line and "create" in line
        ]

        holder.stop()
        both.edit({"batching": {"maxQueueDepth": 77}})
        both.await_condition("Ready", "True", seconds=20)
        assert holder_of(api, shared).startswith(f"{second}_")


@pytest.mark.long
def test_an_installation_that_follows_an_uninstalled_one_acts_at_once(
    target: Target, api: Api, stage: InstallContext, spaces: tuple[str, str, str, str]
) -> None:
    home, _, served, _ = spaces
    pool = PoolHandle(api, served, "chat")
    pool.apply(BARE)
    with stage.installed(home, (served,)) as first:
        first.start()
        pool.await_condition("Ready", "True", seconds=30)
        target.helm("uninstall", "penstock", "--namespace", home)
        first.stop()
    assert "could not be given back" in first.log()
    assert holder_of(api, served).startswith(f"{home}_")
    with stage.installed(home, (served,)) as second:
        second.start()
        assert until("it acts", lambda: leads(second), seconds=20) < 6
        pool.edit({"batching": {"maxQueueDepth": 77}})
        assert pool.await_condition("Ready", "True", seconds=20) < 8


@pytest.mark.long
def test_a_namespace_whose_role_is_gone_stops_no_other_and_is_taken_up_again(
    api: Api, stage: InstallContext, spaces: tuple[str, str, str, str]
) -> None:
    home, _, kept, lost = spaces
    pools = [PoolHandle(api, one, "chat") for one in (kept, lost)]
    with stage.installed(home, (kept, lost)) as operator:
        for one in pools:
            one.apply(BARE)
        operator.start()
        for one in pools:
            one.await_condition("Ready", "True", seconds=30)
        (binding,) = api.list(BINDINGS.format(lost))
        api.delete(f"{BINDINGS.format(lost)}/{binding['metadata']['name']}")
        until("the loss is told", lambda: "cannot be read" in operator.log(), seconds=40)
        pools[0].edit({"batching": {"maxQueueDepth": 77}})
        pools[0].await_condition("Ready", "True", seconds=15)

        api.create(again(binding))
        pools[1].edit({"batching": {"maxQueueDepth": 78}})
        pools[1].await_condition("Ready", "True", seconds=60)
        assert operator.running


def holder_of(api: Api, namespace: str) -> str:
    lease = api.get(LEASES.format(namespace))
    return str(lease["spec"].get("holderIdentity") or "") if lease else ""


def again(binding: Object) -> Object:
    """Return an object as it was, to be created anew."""
    meta = {key: binding["metadata"][key] for key in ("name", "namespace", "labels")}
    head = {"apiVersion": "rbac.authorization.k8s.io/v1", "kind": "RoleBinding"}
    return {**head, **binding, "metadata": meta}
