"""The routes of `GET /v1/models`, for pods that generate text and pods that embed it."""

from typing import Any

from aiohttp import web

from penstock_api import names
from penstock_runtime.protocols.common.replies import json_reply
from penstock_runtime.serving.pod import Pod


class Models:
    """The routes for the model of a pod."""

    def __init__(self, pod: Pod) -> None:
        self._pod = pod

    def routes(self) -> list[web.RouteDef]:
        """Return both routes."""
        return [
            web.get("/v1/models", self.listed),
            web.get("/v1/models/{model}", self.by_name),
        ]

    async def listed(self, _request: web.Request) -> web.Response:
        """Answer the list of the pod's model."""
        return json_reply({"object": "list", "data": [self._card()]})

    async def by_name(self, request: web.Request) -> web.Response:
        """Answer the model, 404 for any other."""
        self._pod.check_model(request.match_info["model"])
        return json_reply(self._card())

    def _card(self) -> dict[str, Any]:
        pod, length = self._pod, self._pod.context_tokens
        card = {
            "id": pod.config.model_name,
            "object": "model",
            "created": pod.began,
            "owned_by": names.GROUP,
            "root": pod.config.model_name,
        }
        return card | ({"max_model_len": length} if length is not None else {})
