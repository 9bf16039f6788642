"""TLS context for calls to pods.

With CAs (PENSTOCK_POD_CA_FILE) a pod must present a certificate that one of them signed for `<pool>.<namespace>.svc`.
Without CAs the connection is encrypted but not verified: a token is valid for one call to one pod, and every response
is range-checked.
"""

import hashlib
import ssl
from pathlib import Path

from penstock_operator.errors import OperatorConfigError


class PodTrust:
    """The TLS context for calls to pods; CAs added to the file are trusted without a restart."""

    def __init__(self, ca_file: Path | None) -> None:
        """Read the file.

        Raises:
            OperatorConfigError: it contains no CA certificate.
        """
        self._ca_file = ca_file
        self._read = b""
        self.context = ssl.SSLContext(ssl.PROTOCOL_TLS_CLIENT)
        self.context.minimum_version = ssl.TLSVersion.TLSv1_2
        if ca_file is None:
            self.context.check_hostname = False
            self.context.verify_mode = ssl.CERT_NONE
        self.refresh()

    def refresh(self) -> None:
        """Add the file's CAs if it changed; removed ones stay trusted until a restart.

        Raises:
            OperatorConfigError: it contains no CA certificate; the loaded ones stay.
        """
        if self._ca_file is None:
            return
        try:
            content = self._ca_file.read_bytes()
            digest = hashlib.sha256(content).digest()
            if digest == self._read:
                return
            self.context.load_verify_locations(cadata=content.decode("ascii"))
        except (OSError, ValueError) as error:
            raise OperatorConfigError(
                f"PENSTOCK_POD_CA_FILE {self._ca_file} cannot be read as CA certificates in PEM: {error}"
            ) from error
        self._read = digest
