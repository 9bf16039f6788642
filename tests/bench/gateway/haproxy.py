"""HAProxy as another way to the same pods, where `haproxy` is on the PATH."""

import shutil
from pathlib import Path
from typing import Final

from penstock_api import names
from tests.support.gateway.stack import Process, Stack

PORT: Final = 10002
CONFIGURATION: Final = """
global
  nbthread 1
defaults
  mode http
  timeout connect 5s
  timeout client 1h
  timeout server 1h
  option redispatch
  retries 3
  retry-on conn-failure empty-response
frontend pool
  bind {host}:{port}
  default_backend pods
backend pods
  balance leastconn
  http-reuse always
{servers}
"""


def is_there() -> bool:
    """Return whether HAProxy is on the PATH."""
    return shutil.which("haproxy") is not None


async def start(gateway: Stack, pods: int) -> Process:
    """Start HAProxy next to a gateway: one thread, as Envoy's one worker, and the least connections in use."""
    servers = "\n".join(
        f"  server pod-{number} {gateway.network}.{10 + number}:{names.CLIENT_PORT}"
        for number in range(pods)
    )
    file = Path(gateway.folder) / "haproxy.cfg"
    file.write_text(CONFIGURATION.format(host=gateway.host, port=PORT, servers=servers))
    process = await gateway.start("haproxy", "haproxy", "-db", "-f", str(file))
    gateway.pods["haproxy"] = process  # ends with the stack
    return process
