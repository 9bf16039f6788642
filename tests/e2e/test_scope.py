"""Scope Namespaces with real pods: listed namespaces are served with the chart's Roles, others are not."""

from collections.abc import Iterator

import pytest

from tests.support.kube import install, namespaces
from tests.support.kube.api import Api
from tests.support.kube.install import Images
from tests.support.kube.operator import InstalledOperator
from tests.support.kube.pools import UNOBSERVED, PoolHandle, emulated
from tests.support.kube.target import Target

SPEC = emulated(replicas=1, drain={"deadlineSeconds": 5})


@pytest.fixture
def scoped(
    target: Target, images: Images, operator: InstalledOperator, namespace: str
) -> Iterator[InstalledOperator]:
    """The release in scope Namespaces with the test's namespace; its values are restored afterwards."""
    operator.change("scope=Namespaces", f"namespaces={{{namespace}}}")
    yield operator
    install.install_operator(target, images)


@pytest.mark.alone
@pytest.mark.usefixtures("no_crash_loop", "scoped")
def test_a_listed_namespace_is_served_and_another_is_not(api: Api, namespace: str) -> None:
    pool = PoolHandle(api, namespace, "named")
    pool.apply(SPEC)
    pool.await_ready(1)
    pool.await_acknowledged()
    with namespaces.namespace(api, "e2e") as other:
        left = PoolHandle(api, other, "left")
        left.apply(SPEC)
        pool.edit({"replicas": 2})
        pool.await_ready(2)
        assert left.status() == UNOBSERVED
