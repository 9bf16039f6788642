"""The pod's TLS certificate: loaded at start and reloaded when its files change."""

import asyncio
import logging
import ssl
from typing import Final

from penstock_api.certificates import CertificateUnusable, ServerCertificate
from penstock_runtime.config import RuntimeConfig

log = logging.getLogger(__name__)

WATCH_SECONDS: Final = 5.0
"""The interval of checks, far below the minute or so that the kubelet takes to update a mounted Secret."""


def certificate_of(config: RuntimeConfig) -> ServerCertificate | None:
    """Return the certificate of both ports, or None for plain HTTP.

    Raises:
        CertificateUnusable: the folder is set but holds no usable certificate.
    """
    return ServerCertificate(config.http.tls_folder) if config.http.tls_folder is not None else None


def context_of(certificate: ServerCertificate | None) -> ssl.SSLContext | None:
    """Return the SSL context of a listening socket, None for plain HTTP."""
    return None if certificate is None else certificate.context


async def watch_certificate(
    certificate: ServerCertificate | None, every_seconds: float = WATCH_SECONDS
) -> None:
    """Reload the certificate for new connections when it changes; a broken one is logged and not loaded. Never returns.

    The event loop reads the two small files itself: with a thread, a handshake could use the context after the new
    certificate is loaded and before its key is.
    """
    while certificate is not None:
        await asyncio.sleep(every_seconds)
        try:
            if certificate.refresh():
                log.info("certificate renewed: new connections use it")
        except CertificateUnusable as error:
            log.error("certificate not renewed; the previous certificate stays in use: %s", error)
