"""The operator comes, goes and changes by helm; pools keep serving, and no pod of theirs restarts."""

import asyncio

from tests.kube import install
from tests.kube.install import Images
from tests.kube.operator import Operator
from tests.kube.pods import restarts
from tests.kube.pools import Pool, until
from tests.kube.target import Target
from tests.load.load import Load

RELEASE = (install.RELEASE, "-n", install.OPERATOR_NAMESPACE)
NEWER = "localhost/penstock-runtime:newer"
"""Nothing pulls it: a pool's image is pinned at its first render."""


def upgrade(target: Target) -> None:
    """Upgrade the release: other pods of the operator, and another default runtime image."""
    changed = (
        "--set-string",
        "podAnnotations.example\\.com/turn=2",
        "--set",
        f"defaultRuntimeImage={NEWER}",
    )
    target.helm(
        "upgrade", *RELEASE[:1], install.CHART, *RELEASE[1:], "--reuse-values", "--wait", *changed
    )


async def test_upgrade_rollback_and_uninstall_leave_pools_serving(
    target: Target, images: Images, operator: Operator, steady: Pool
) -> None:
    names = steady.pod_names()
    async with Load(steady.url(), steady.name, rate=20) as load:
        await load.next()
        await asyncio.to_thread(upgrade, target)
        await asyncio.to_thread(
            steady.await_condition, "UpToDate", "False", "NewTemplateAvailable", seconds=60
        )
        await asyncio.to_thread(target.helm, "rollback", *RELEASE, "--wait")
        await asyncio.to_thread(steady.await_condition, "UpToDate", "True", seconds=60)
        await asyncio.to_thread(target.helm, "uninstall", *RELEASE, "--wait")
        await asyncio.to_thread(until, "the operator gone", lambda: not operator.pods())
        await asyncio.sleep(3)
        await asyncio.to_thread(install.install_operator, target, images)
        await asyncio.to_thread(steady.await_condition, "Ready")
        await asyncio.sleep(6)
    assert (load.final.lost, load.final.wrong, load.final.refused) == (0, 0, 0), load.final.notes
    assert steady.pod_names() == names
    assert all(restarts(pod) == 0 for pod in steady.pods())


def test_an_operator_that_comes_back_takes_up_what_it_finds(
    operator: Operator, steady: Pool
) -> None:
    steady.await_acknowledged()
    names, batch = steady.pod_names(), steady.status()["batch"]
    cap = batch["cap"] + 7  # another than the law may have come to by then
    operator.stop()
    steady.edit({"batching": {"mode": "Fixed", "size": {"max": cap}}})
    operator.start()
    steady.await_acknowledged(batch["generation"], seconds=60)
    assert steady.status()["batch"]["cap"] == cap
    assert steady.pod_names() == names
