"""Scope Namespaces with exactly the chart's Roles: served namespaces, their Leases, and loss of a Role."""

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
from tests.support.kube.pools import UNOBSERVED, PoolHandle, until
from tests.support.kube.target import Target

pytestmark = [pytest.mark.integration, pytest.mark.timeout(240)]

LEASES = "/apis/coordination.k8s.io/v1/namespaces/{}/leases/penstock-pools"
BINDINGS = "/apis/rbac.authorization.k8s.io/v1/namespaces/{}/rolebindings"


@pytest.fixture
def stage(
    target: Target, api: Api, kubeconfig: Path, operator: OperatorProcess, tmp_path: Path
) -> Iterator[InstallContext]:
    """An installation context; the operator with cluster scope is stopped."""
    with operator.down():
        yield InstallContext(target, api, kubeconfig, tmp_path)


@pytest.fixture
def spaces(api: Api) -> Iterator[tuple[str, str, str, str]]:
    """Two namespaces for installations, and two to serve."""
    with ExitStack() as stack:
        names = [
            stack.enter_context(namespaces.namespace(api, prefix))
            for prefix in ("home-1", "home-2", "team-a", "team-b")
        ]
        yield (names[0], names[1], names[2], names[3])


def test_only_the_listed_namespaces_are_served(
    api: Api, stage: InstallContext, spaces: tuple[str, str, str, str]
) -> None:
    home, _, served, other = spaces
    with stage.installed(home, (served,)) as operator:
        pools = [PoolHandle(api, namespace, "chat") for namespace in (served, other)]
        for pool in pools:
            pool.apply(BARE)
        operator.start()
        await_children(api, pools[0])
        pools[0].await_zero(seconds=20)
        pools[0].await_condition("PolicyApplied", "True", seconds=5)
        pools[0].edit({"template": {"annotations": {"example.com/turn": "2"}}})
        pools[0].await_condition("UpToDate", "True", seconds=10)
        assert pools[1].status() == UNOBSERVED
        assert api.get(pools[1].children["Deployment"]) is None
        assert operator.running
    assert "Forbidden" not in operator.log()  # "403" may be part of a namespace's name


def test_policies_without_read_permission_are_reported_as_not_applied(
    api: Api, stage: InstallContext, spaces: tuple[str, str, str, str]
) -> None:
    home, _, served, _ = spaces
    with stage.installed(home, (served,), "rbac.readPolicies=false") as operator:
        pool = PoolHandle(api, served, "chat")
        pool.apply(BARE)
        operator.start()
        pool.await_condition("PolicyApplied", "Unknown", "PoliciesNotReadable", seconds=20)
        pool.await_zero(seconds=20)
    assert "rbac.readPolicies" in operator.log()


@pytest.mark.long
def test_of_two_installations_that_list_a_namespace_one_acts_there(
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
        for pool in (both, alone):
            await_children(api, pool)
            pool.await_zero(seconds=20)
        assert holder_of(api, shared).startswith(f"{first}_")
        assert holder_of(api, own).startswith(f"{second}_")
        assert not [
            line for line in other.log().splitlines() if shared in line and "create" in line
        ]

        holder.stop()
        both.edit({"batching": {"maxQueueDepth": 77}})
        both.await_zero(seconds=20)
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
        pool.await_zero(seconds=30)
        target.helm("uninstall", "penstock", "--namespace", home)
        first.stop()
    assert "failed to release the Lease" in first.log()
    assert holder_of(api, served).startswith(f"{home}_")
    with stage.installed(home, (served,)) as second:
        second.start()
        assert until("it acts", lambda: leads(second), seconds=20) < 6
        pool.edit({"batching": {"maxQueueDepth": 77}})
        assert pool.await_zero(seconds=20) < 8


@pytest.mark.long
def test_a_namespace_that_loses_its_role_affects_no_other_and_is_served_again_later(
    api: Api, stage: InstallContext, spaces: tuple[str, str, str, str]
) -> None:
    home, _, kept, lost = spaces
    pools = [PoolHandle(api, namespace, "chat") for namespace in (kept, lost)]
    with stage.installed(home, (kept, lost)) as operator:
        for pool in pools:
            pool.apply(BARE)
        operator.start()
        for pool in pools:
            pool.await_zero(seconds=30)
        (binding,) = api.list(BINDINGS.format(lost))
        api.delete(f"{BINDINGS.format(lost)}/{binding['metadata']['name']}")
        until("the loss is reported", lambda: "cannot be read" in operator.log(), seconds=40)
        pools[0].edit({"batching": {"maxQueueDepth": 77}})
        pools[0].await_zero(seconds=15)

        api.create(recreation_of(binding))
        pools[1].edit({"batching": {"maxQueueDepth": 78}})
        pools[1].await_zero(seconds=60)
        assert operator.running


def holder_of(api: Api, namespace: str) -> str:
    lease = api.get(LEASES.format(namespace))
    return str(lease["spec"].get("holderIdentity") or "") if lease else ""


def recreation_of(binding: Object) -> Object:
    """Return a manifest that creates the binding again."""
    meta = {key: binding["metadata"][key] for key in ("name", "namespace", "labels")}
    head = {"apiVersion": "rbac.authorization.k8s.io/v1", "kind": "RoleBinding"}
    return {**head, **binding, "metadata": meta}
