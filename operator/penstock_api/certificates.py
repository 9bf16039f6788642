"""`ServerCertificate`: a certificate from a mounted Secret of type `kubernetes.io/tls`, reloaded when the files change.

Operator and runtime use it. The kubelet swaps the files atomically; after a mismatched pair (one file read before the
swap and one after it, or a broken renewal) the loaded certificate stays in use.
"""

import hashlib
import ssl
from pathlib import Path

CERTIFICATE_FILE = "tls.crt"
KEY_FILE = "tls.key"


class CertificateUnusable(ValueError):
    """The files are missing or invalid; the message names them and the reason, never their content."""


class ServerCertificate:
    """The certificate in a folder, and the SSL context that uses it."""

    def __init__(self, folder: Path) -> None:
        """Read the certificate.

        Raises:
            CertificateUnusable: there is no valid certificate.
        """
        self._folder = folder
        self._digest = b""
        self.context = _server_context()
        self.refresh()

    def refresh(self) -> bool:
        """Load the files for new connections if they changed; return whether they did.

        Raises:
            CertificateUnusable: the files are invalid; the loaded certificate stays in use.
        """
        certificate, key = self._folder / CERTIFICATE_FILE, self._folder / KEY_FILE
        try:
            digest = hashlib.sha256(certificate.read_bytes() + key.read_bytes()).digest()
            if digest == self._digest:
                return False
            _server_context().load_cert_chain(
                certificate, key
            )  # a mismatched pair must not corrupt the live context
            self.context.load_cert_chain(certificate, key)
        except OSError as error:
            reason = error.reason if isinstance(error, ssl.SSLError) else error.strerror
            raise CertificateUnusable(
                f"{CERTIFICATE_FILE} and {KEY_FILE} in {self._folder} cannot be used:"
                f" {reason or 'they are not a certificate and its key in PEM'}"
            ) from error
        self._digest = digest
        return True


def _server_context() -> ssl.SSLContext:
    context = ssl.SSLContext(ssl.PROTOCOL_TLS_SERVER)
    context.minimum_version = ssl.TLSVersion.TLSv1_2
    return context
