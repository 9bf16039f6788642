"""Fields that nobody knows: ignored, and told in the log."""

import logging
from typing import Final

from aiohttp import web

from penstock_runtime.protocols.common.replies import REQUEST_ID
from penstock_runtime.protocols.openai.wire.base import WireBody

log = logging.getLogger(__name__)

MAX_LOGGED_FIELDS: Final = 1000
"""Remembered; an odd client that makes up more of them is no longer told of."""


class UnknownFields:
    """Owns which names were told, so that each fills one line of the log and no more."""

    def __init__(self) -> None:
        self._told: set[str] = set()

    def log(self, request: web.Request, body: WireBody) -> None:
        """Log the names that `body` has and this API has not, each once."""
        for name in body.unknown():
            if name in self._told or len(self._told) >= MAX_LOGGED_FIELDS:
                continue
            self._told.add(name)
            log.info(
                "field %r is not known here, and ignored",
                name[:80],
                extra={"request_id": request.get(REQUEST_ID), "path": request.path},
            )
