"""Logs unknown fields of bodies, which are ignored."""

import logging
from typing import Final

from aiohttp import web

from penstock_runtime.protocols.common.replies import REQUEST_ID
from penstock_runtime.protocols.openai.wire.base import WireBody

log = logging.getLogger(__name__)

MAX_LOGGED_FIELDS: Final = 1000
"""The number of names after which unknown fields are no longer logged, for clients that invent names."""


class UnknownFields:
    """The names that are logged already: each gets one line."""

    def __init__(self) -> None:
        self._logged: set[str] = set()

    def log(self, request: web.Request, body: WireBody) -> None:
        """Log the fields of `body` that this API does not have, each name once."""
        for name in body.unknown():
            if name in self._logged or len(self._logged) >= MAX_LOGGED_FIELDS:
                continue
            self._logged.add(name)
            log.info(
                "ignoring unknown field %r",
                name[:80],
                extra={"request_id": request.get(REQUEST_ID), "path": request.path},
            )
