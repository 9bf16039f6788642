"""A change of the template rolls the pods under load and loses nothing."""

import asyncio

from tests.e2e.conftest import Figure
from tests.kube.pools import Pool, until
from tests.load.load import Load


async def test_a_rolling_update_under_load_loses_no_request(steady: Pool, figure: Figure) -> None:
    old = steady.pod_names()

    def rolled() -> bool | str:
        new = steady.pod_names()
        ready = steady.status().get("readyReplicas")
        return (
            not new & old and len(new) == 2 and ready == 2
        ) or f"{new} after {old}, {ready} ready"

    async with Load(steady.url(), steady.name, rate=30) as load:
        await load.next()
        steady.edit({"template": {"annotations": {"example.com/rolled": "yes"}}})
        await asyncio.to_thread(until, "both pods replaced", rolled, seconds=90)
        await asyncio.to_thread(steady.await_condition, "Progressing", "False")
        await asyncio.sleep(
            8
        )  # the last old pod drains; its endpoint is gone, its connections are not
    assert (load.final.lost, load.final.wrong) == (0, 0), load.final.notes
    assert load.final.refused == 0
    assert load.final.completed == load.final.sent > 200
    assert len(load.final.pods) >= 4
    figure(f"rolling update at 30 requests/s: lost {load.final.lost} of {load.final.sent}")
