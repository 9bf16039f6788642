"""The routes of the control API on the cluster port: GET the state, PATCH the limits (docs/design/design.md#live-limits)."""

import json
import logging
from typing import Final

from aiohttp import hdrs, web
from pydantic import ValidationError
from pydantic_core import from_json

from penstock_api import names
from penstock_api.pod_contract import LimitsUpdate
from penstock_runtime.errors import PenstockError, shown
from penstock_runtime.protocols.common.replies import JSON, error_reply
from penstock_runtime.protocols.control.auth import Forbidden, TokenVerifier, Unauthorized
from penstock_runtime.protocols.open_inference import bodies
from penstock_runtime.serving.limits import GenerationConflict
from penstock_runtime.serving.pod import Pod

log = logging.getLogger(__name__)

MAX_BODY_BYTES: Final = 8 * 2**10
BODY_SECONDS: Final = 5.0
ACKNOWLEDGE_SECONDS = 1.0
"""Time that an accepted PATCH waits for the engine to apply the limits."""


class Control:
    """The control API of one pod; every answer except an error is a `State`."""

    def __init__(self, pod: Pod, verifier: TokenVerifier) -> None:
        self._pod = pod
        self._verifier = verifier

    def routes(self) -> list[web.RouteDef]:
        """Return both routes."""
        return [
            web.get(names.PATH_STATE, self.get_state),
            web.patch(
                names.PATH_LIMITS, self.patch_limits, expect_handler=bodies.postpone_continue
            ),
        ]

    async def get_state(self, request: web.Request) -> web.Response:
        """Return the state."""
        try:
            await self._verifier.verify(request.headers.get(hdrs.AUTHORIZATION))
        except (Unauthorized, Forbidden) as error:
            return _denied(error)
        return self._state()

    async def patch_limits(self, request: web.Request) -> web.Response:
        """Accept limits; the state in the answer has the generation that the engine has applied by then.

        A limit that the body leaves out keeps its value. Limits outside the pod's envelope are rejected, unless they are
        in force already, from the settings file.
        """
        try:
            grant = await self._verifier.verify(request.headers.get(hdrs.AUTHORIZATION))
            body = await _body(request)
            update = _patched(self._pod.live.accepted, body)
            grant.check(update.generation)
        except (Unauthorized, Forbidden) as error:
            return _denied(error)
        except (ValidationError, BadJson) as error:
            return _invalid(error)
        if self._pod.model is None:
            return self._state()
        outside = self._pod.envelope().outside(update)
        if outside is not None and update != self._pod.live.accepted:
            return error_reply(422, str(outside), field=outside.field)
        try:
            self._pod.live.accept(update)
        except GenerationConflict as conflict:
            return error_reply(
                409, str(conflict), field="generation", generation=conflict.generation
            )
        await self._pod.live.acknowledged(update.generation, ACKNOWLEDGE_SECONDS)
        return self._state()

    def _state(self) -> web.Response:
        pod = self._pod
        if pod.model is None:
            return error_reply(
                503,
                "the model is being loaded: retry in a second",
                retry_after_seconds=1,
                loading=pod.meter.read().model_dump(mode="json", by_alias=True),
            )
        state = pod.state(pod.model)
        return web.Response(text=state.model_dump_json(by_alias=True), content_type=JSON)


class BadJson(PenstockError):
    """The body of a PATCH is not a JSON object."""


async def _body(request: web.Request) -> bytearray:
    """Return the body, decompressed and limited as a client's is, but not counted as clients' memory."""
    bodies.check_head(request, MAX_BODY_BYTES)
    return await bodies.read(request, MAX_BODY_BYTES, BODY_SECONDS, lambda _bytes: None)


def _patched(present: LimitsUpdate, body: bytearray) -> LimitsUpdate:
    """Return the present limits, updated with the limits and the generation in `body`.

    Raises:
        BadJson: the body is not a JSON object.
        ValidationError: a field is unknown, of another type or out of range, or the generation is missing.
    """
    try:
        changes = from_json(bytes(body), allow_inf_nan=False)
    except ValueError as error:
        raise BadJson(f"the body is not valid JSON: {error}") from error
    if not isinstance(changes, dict):
        raise BadJson(f"the body must be a JSON object of limits, got {shown(changes)}")
    merged = present.limits().model_dump(mode="json", by_alias=True) | changes
    return LimitsUpdate.model_validate_json(json.dumps(merged), by_alias=True, by_name=False)


def _denied(error: Unauthorized | Forbidden) -> web.Response:
    log.warning("control call rejected: %s", error)
    if isinstance(error, Forbidden):
        return error_reply(403, str(error), field=hdrs.AUTHORIZATION)
    reply = error_reply(401, str(error), field=hdrs.AUTHORIZATION)
    reply.headers[hdrs.WWW_AUTHENTICATE] = "Bearer"
    return reply


def _invalid(error: ValidationError | BadJson) -> web.Response:
    if isinstance(error, BadJson):
        return error_reply(422, str(error), field="body")
    first = error.errors(include_url=False)[0]
    field = ".".join(str(part) for part in first["loc"]) or "body"
    got = (
        "" if first["type"] in ("missing", "json_invalid") else f", got {shown(first.get('input'))}"
    )
    return error_reply(422, f"`{field}`: {first['msg']}{got}", field=field)
