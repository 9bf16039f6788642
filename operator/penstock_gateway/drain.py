"""`drain`: the end of a gateway's pod, without loss: no new connections are led here, and requests in flight end."""

import asyncio
import logging
from collections.abc import Callable
from typing import Final

from penstock_gateway.envoy_admin import EnvoyAdmin
from penstock_gateway.errors import EnvoyUnavailable

log = logging.getLogger(__name__)

CHECK_SECONDS: Final = 0.2


async def drain(
    admin: EnvoyAdmin, accept_seconds: float, drain_seconds: float, now: Callable[[], float]
) -> int:
    """Drain Envoy, end it, and return the number of requests that were cut off.

    Readiness fails first; connections close after their requests (`Connection: close`, GOAWAY) while new ones are
    still accepted, for `accept_seconds` at least; then Envoy ends as soon as no request is in flight, or after
    `drain_seconds`.
    """
    begin = now()
    active = 0
    try:
        await admin.fail_readiness()
        await admin.drain_listeners()
        while True:
            active = await admin.active_requests()
            elapsed = now() - begin
            if elapsed >= drain_seconds or (elapsed >= accept_seconds and not active):
                break
            await asyncio.sleep(CHECK_SECONDS)
        await admin.quit()
    except EnvoyUnavailable as error:
        log.warning("Envoy ended before its drain: %s", error)
    if active:
        log.error("%d requests were in flight after %.0f s and are cut off", active, drain_seconds)
    return active
