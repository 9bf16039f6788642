"""Small aiohttp servers on the loopback address, and a kubeconfig for one that serves as the API server."""

import asyncio
import logging
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager
from pathlib import Path

import yaml
from aiohttp import web
from aiohttp.log import server_logger


@asynccontextmanager
async def listening(
    app: web.Application,
    *,
    shutdown_seconds: float,
    host: str = "127.0.0.1",
    logger: logging.Logger = server_logger,
) -> AsyncIterator[str]:
    """Serve `app` on a free port of `host` and yield its URL; open connections get `shutdown_seconds` to end."""
    runner = web.AppRunner(app, access_log=None, logger=logger, shutdown_timeout=shutdown_seconds)
    await runner.setup()
    server = runner.server
    assert server is not None
    try:
        await web.TCPSite(runner, host, 0).start()
        yield f"http://{host}:{runner.addresses[0][1]}"
    finally:
        await runner.cleanup()
        await asyncio.sleep(0)  # lets connections that were just accepted start their handler
        await server.shutdown(0.0)


def write_kubeconfig(file: Path, url: str) -> Path:
    """Write a kubeconfig for a server at `url` that does not authenticate requests."""
    named = {"name": "loopback"}
    kubeconfig = {
        "apiVersion": "v1",
        "kind": "Config",
        "current-context": "loopback",
        "clusters": [{**named, "cluster": {"server": url}}],
        "users": [{**named, "user": {"token": "none"}}],
        "contexts": [{**named, "context": {"cluster": "loopback", "user": "loopback"}}],
    }
    file.write_text(yaml.safe_dump(kubeconfig))
    return file
