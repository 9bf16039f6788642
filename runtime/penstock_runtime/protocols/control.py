"""The control API on the cluster port: GET the state, PATCH the limits (DESIGN, section 3)."""

import logging

from aiohttp import hdrs, web
from pydantic import ValidationError

from penstock_api import names
from penstock_api.limits import LimitsUpdate
from penstock_runtime.live import GenerationConflict
from penstock_runtime.pod import Pod
from penstock_runtime.protocols.replies import JSON, error_reply
from penstock_runtime.protocols.tokens import Forbidden, TokenVerifier, Unauthorized

log = logging.getLogger(__name__)

OBEY_SECONDS = 1.0
"""How long an accepted PATCH waits for the engine to obey before it answers with the state as it is."""


class Control:
    """Answers the operator for one pod; every answer but an error is a `State`."""

    def __init__(self, pod: Pod, verifier: TokenVerifier) -> None:
        self._pod = pod
        self._verifier = verifier

    def routes(self) -> list[web.RouteDef]:
        """Return both routes."""
        return [
            web.get(names.PATH_STATE, self.get_state),
            web.patch(names.PATH_LIMITS, self.patch_limits),
        ]

    async def get_state(self, request: web.Request) -> web.Response:
        """Answer the state."""
        try:
            await self._verifier.verify(request.headers.get(hdrs.AUTHORIZATION))
        except (Unauthorized, Forbidden) as error:
            return _denied(error)
        return self._state()

    async def patch_limits(self, request: web.Request) -> web.Response:
        """Accept limits; the state in the answer says the generation that the engine obeys by then.

        Limits outside this pod's envelope are refused, unless the pod has them already, from its settings file.
        """
        try:
            grant = await self._verifier.verify(request.headers.get(hdrs.AUTHORIZATION))
            update = LimitsUpdate.model_validate_json(await request.read())
            grant.check(update.generation)
        except (Unauthorized, Forbidden) as error:
            return _denied(error)
        except ValidationError as error:
            return _invalid(error)
        if self._pod.model is None:
            return self._state()
        outside = self._pod.envelope().outside(update)
        if outside is not None and update != self._pod.live.accepted:
            return error_reply(422, str(outside), field=outside.field)
        try:
            self._pod.live.accept(update)
        except GenerationConflict as conflict:
            return error_reply(409, str(conflict), field="generation", generation=conflict.held)
        await self._pod.live.obeyed(update.generation, OBEY_SECONDS)
        return self._state()

    def _state(self) -> web.Response:
        pod = self._pod
        if pod.model is None:
            return error_reply(
                503,
                "the model is being loaded: ask again soon",
                retry_after_seconds=1,
                loading=pod.meter.read().model_dump(mode="json", by_alias=True),
            )
        state = pod.state(pod.model)
        return web.Response(text=state.model_dump_json(by_alias=True), content_type=JSON)


def _denied(error: Unauthorized | Forbidden) -> web.Response:
    log.warning("a control call was refused: %s", error)
    if isinstance(error, Forbidden):
        return error_reply(403, str(error), field=hdrs.AUTHORIZATION)
    reply = error_reply(401, str(error), field=hdrs.AUTHORIZATION)
    reply.headers[hdrs.WWW_AUTHENTICATE] = "Bearer"
    return reply


def _invalid(error: ValidationError) -> web.Response:
    first = error.errors(include_url=False)[0]
    field = ".".join(str(part) for part in first["loc"]) or "body"
    got = (
        "" if first["type"] in ("missing", "json_invalid") else f", got {first.get('input')!r:.80}"
    )
    return error_reply(422, f"`{field}`: {first['msg']}{got}", field=field)
