"""The pod's own certificate: read at the start, and looked at again for as long as it serves."""

import asyncio
import logging
import ssl
from typing import Final

from penstock_api.certificates import CertificateUnusable, ServerCertificate
from penstock_runtime.config import RuntimeConfig

log = logging.getLogger(__name__)

WATCH_SECONDS: Final = 5.0
"""Far below the minute or so that the kubelet takes to bring a Secret's change into a pod."""


def certificate_of(config: RuntimeConfig) -> ServerCertificate | None:
    """Return the certificate that both ports are to serve with, or None for plain HTTP.

    Raises:
        CertificateUnusable: there is a folder for it, and no certificate in it that can be served with.
    """
    return ServerCertificate(config.http.tls_folder) if config.http.tls_folder is not None else None


def context_of(certificate: ServerCertificate | None) -> ssl.SSLContext | None:
    """Return what a listening socket is given."""
    return None if certificate is None else certificate.context


async def watch_certificate(
    certificate: ServerCertificate | None, every_seconds: float = WATCH_SECONDS
) -> None:
    """Serve new connections with a renewed certificate; a broken one is logged and not taken. Runs for ever.

    The loop itself reads the two small files of memory: in a thread, a handshake of the loop could meet the context
    between the new certificate and its key.
    """
    while certificate is not None:
        await asyncio.sleep(every_seconds)
        try:
            if certificate.refresh():
                log.info("a renewed certificate is in force")
        except CertificateUnusable as error:
            log.error("the former certificate stays in force: %s", error)
