"""`drain`: the end of a gateway's pod, without loss: no new connections are led here, and requests in flight end."""

import asyncio
import logging
from collections.abc import Callable
from typing import Final

from penstock_gateway.envoy_admin import EnvoyAdmin
from penstock_gateway.errors import EnvoyGone, EnvoyUnavailable

log = logging.getLogger(__name__)

CHECK_SECONDS: Final = 0.2
GONE_CHECKS: Final = 2
"""Checks in a row that find no Envoy before it counts as ended."""


async def drain(
    admin: EnvoyAdmin, accept_seconds: float, drain_seconds: float, now: Callable[[], float]
) -> int:
    """Drain Envoy, end it, and return the number of requests that were cut off.

    Readiness fails first; connections close after their requests (`Connection: close`, GOAWAY) while new ones are
    still accepted, for `accept_seconds` at least; then Envoy ends as soon as no request is in flight, or after
    `drain_seconds`. A call that Envoy does not answer in time is repeated.
    """
    begin = now()
    steps = [admin.fail_readiness, admin.drain_listeners]
    active, gone = 0, 0
    while True:
        settled = False
        try:
            while steps:
                await steps[0]()
                del steps[0]
            active, gone = await admin.active_requests(), 0
            settled = not active
        except EnvoyGone as error:
            gone += 1
            if gone >= GONE_CHECKS:
                log.warning("Envoy ended before its drain: %s", error)
                break
        except EnvoyUnavailable as error:
            log.warning("the drain goes on without an answer of Envoy: %s", error)
        elapsed = now() - begin
        if elapsed >= drain_seconds or (elapsed >= accept_seconds and settled):
            await _quit(admin)
            break
        await asyncio.sleep(CHECK_SECONDS)
    if active:
        log.error("%d requests were in flight after %.0f s and are cut off", active, now() - begin)
    return active


async def _quit(admin: EnvoyAdmin) -> None:
    try:
        await admin.quit()
    except EnvoyUnavailable as error:
        log.warning("Envoy ends with its container: %s", error)
