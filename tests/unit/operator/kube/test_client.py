"""Lists of the API server: chunked, and in one piece once the token of the next chunk has expired."""

import pytest
from aiohttp import web
from kubernetes.aio.client.configuration import Configuration

from penstock_operator.errors import ObjectNotFound
from penstock_operator.kube.client import ApiClient
from penstock_operator.kube.kinds import POD
from tests.support.kube.loopback import listening


async def listed(first_status: int) -> list[str]:
    """Return the UIDs of a list whose second chunk has an expired token; the first one has this status."""

    async def answer(request: web.Request) -> web.Response:
        assert request.query["labelSelector"] == POD.label_selector
        if "continue" in request.query:
            return web.json_response({"reason": "Expired"}, status=410)
        more = {"continue": "token"} if "limit" in request.query else {}
        uids = ["a"] if more else ["a", "b"]
        items = [{"metadata": {"uid": uid, "resourceVersion": "1"}} for uid in uids]
        return web.json_response({"metadata": more, "items": items}, status=first_status)

    app = web.Application()
    app.router.add_get("/{path:.*}", answer)
    async with listening(app, shutdown_seconds=0.1) as url:
        configuration = Configuration()
        configuration.host = url
        client = ApiClient(configuration)
        try:
            return [item.uid async for item in client.list_metadata(POD)]
        finally:
            await client.close()


async def test_a_list_whose_token_expires_is_read_in_one_piece() -> None:
    assert await listed(200) == ["a", "a", "b"]


@pytest.mark.parametrize("status", [404, 410])
async def test_a_kind_that_does_not_exist_is_an_error(status: int) -> None:
    with pytest.raises(ObjectNotFound):
        await listed(status)
