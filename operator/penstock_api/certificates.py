"""A server's certificate from a mounted Secret of type `kubernetes.io/tls`, taken anew when the files change.

Operator and runtime serve with it alike. The kubelet swaps the folder's files as one; a pair that does not fit
(one file read before the swap and one after it, or a broken renewal) keeps the former certificate in force.
"""

import hashlib
import ssl
from pathlib import Path

CERTIFICATE_FILE = "tls.crt"
KEY_FILE = "tls.key"


class CertificateUnusable(ValueError):
    """The files are missing, or no certificate with its key; the message says which and why, never what is in them."""


class ServerCertificate:
    """The certificate in one folder, and the context that connections are accepted with."""

    def __init__(self, folder: Path) -> None:
        """Read it.

        Raises:
            CertificateUnusable: there is none that can be served with.
        """
        self._folder = folder
        self._read = b""
        self.context = _server_context()
        self.refresh()

    def refresh(self) -> bool:
        """Take the files if they changed, for connections made from now on; return whether they did.

        Raises:
            CertificateUnusable: what is there now cannot be served with; the former one stays in force.
        """
        certificate, key = self._folder / CERTIFICATE_FILE, self._folder / KEY_FILE
        try:
            content = hashlib.sha256(certificate.read_bytes() + key.read_bytes()).digest()
            if content == self._read:
                return False
            _server_context().load_cert_chain(
                certificate, key
            )  # a pair that fails spoils no live context
            self.context.load_cert_chain(certificate, key)
        except OSError as error:
            reason = error.reason if isinstance(error, ssl.SSLError) else error.strerror
            raise CertificateUnusable(
                f"{CERTIFICATE_FILE} and {KEY_FILE} in {self._folder} cannot be served with:"
                f" {reason or 'no PEM of a certificate and its key'}"
            ) from error
        self._read = content
        return True


def _server_context() -> ssl.SSLContext:
    context = ssl.SSLContext(ssl.PROTOCOL_TLS_SERVER)
    context.minimum_version = ssl.TLSVersion.TLSv1_2
    return context
