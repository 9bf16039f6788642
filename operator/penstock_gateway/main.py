"""Entry point of the gateway's controller.

`penstock-gateway bootstrap` writes Envoy's bootstrap and ends; without an argument the controller runs. At SIGTERM it
drains Envoy, and ends when that is done.
"""

import asyncio
import contextlib
import json
import logging
import os
import sys
import time

from penstock_api.log_format import log_to_stderr
from penstock_api.stopping import on_stop
from penstock_gateway.config import GatewaySettings
from penstock_gateway.drain import drain
from penstock_gateway.envoy_admin import EnvoyAdmin
from penstock_gateway.errors import GatewayConfigError
from penstock_gateway.gateway import Gateway
from penstock_gateway.http import serving
from penstock_gateway.kube.api_server import ApiServer
from penstock_gateway.resources.bootstrap import bootstrap

log = logging.getLogger("penstock_gateway")


def main() -> None:
    """Run, and exit with an error on wrong settings."""
    try:
        settings = GatewaySettings.from_env(os.environ)
        if sys.argv[1:] == ["bootstrap"]:
            settings.bootstrap_file.write_text(json.dumps(bootstrap(settings)), encoding="utf-8")
            return
        log_to_stderr(settings.log_format, settings.log_level, lambda _: {})
        asyncio.run(_run(settings))
    except GatewayConfigError as error:
        sys.exit(f"penstock-gateway: {error}")


async def _run(settings: GatewaySettings) -> None:
    stopping = asyncio.Event()
    on_stop(asyncio.get_running_loop().add_signal_handler, stopping.set)
    admin = EnvoyAdmin(settings.admin_socket)
    api = ApiServer(settings)
    gateway = Gateway(settings, api, admin, time.monotonic)
    try:
        async with serving(gateway, admin, settings):
            running = asyncio.create_task(gateway.run())
            waiting = asyncio.create_task(stopping.wait())
            await asyncio.wait({running, waiting}, return_when=asyncio.FIRST_COMPLETED)
            if stopping.is_set():
                log.info("draining")
                await drain(admin, settings.accept_seconds, settings.drain_seconds, time.monotonic)
                running.cancel()
            waiting.cancel()
            with contextlib.suppress(asyncio.CancelledError):
                await running
    finally:
        await api.close()
        await admin.close()
