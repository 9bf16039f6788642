"""TLS context for calls to pods, which verifies their certificates.

With authorities (PENSTOCK_POD_CA_FILE) a pod must have a certificate of theirs for `<pool>.<namespace>.svc`. Without,
the connection is encrypted and not verified: a token is valid for one call to one pod, and every response is
range-checked.
"""

import hashlib
import ssl
from pathlib import Path

from penstock_operator.errors import OperatorConfigError


class PodTrust:
    """The TLS context for calls to pods; authorities added to the file count without a restart."""

    def __init__(self, authorities: Path | None) -> None:
        """Read the file.

        Raises:
            OperatorConfigError: it contains no authority.
        """
        self._authorities = authorities
        self._read = b""
        self.context = ssl.SSLContext(ssl.PROTOCOL_TLS_CLIENT)
        self.context.minimum_version = ssl.TLSVersion.TLSv1_2
        if authorities is None:
            self.context.check_hostname = False
            self.context.verify_mode = ssl.CERT_NONE
        self.refresh()

    def refresh(self) -> None:
        """Add the file's authorities if it changed; removed ones count until a restart.

        Raises:
            OperatorConfigError: it contains no authority; the loaded ones stay.
        """
        if self._authorities is None:
            return
        try:
            content = self._authorities.read_bytes()
            digest = hashlib.sha256(content).digest()
            if digest == self._read:
                return
            self.context.load_verify_locations(cadata=content.decode("ascii"))
        except (OSError, ValueError) as error:
            raise OperatorConfigError(
                f"PENSTOCK_POD_CA_FILE {self._authorities} contains no PEM certificate of an authority: {error}"
            ) from error
        self._read = digest
