"""Whose certificates the operator believes when it calls pods that speak TLS.

With the administrator's authorities (PENSTOCK_POD_CA_FILE) a pod must show a certificate of theirs for
`<pool>.<namespace>.svc`. Without, the wire is encrypted and nobody is judged: tokens are good for one call to one
pod, and what pods answer is range-checked in either case.
"""

import hashlib
import ssl
from pathlib import Path

from penstock_operator.errors import OperatorConfigError


class PodTrust:
    """The context that pods are called with; authorities that are added to the file count without a restart."""

    def __init__(self, authorities: Path | None) -> None:
        """Read the file.

        Raises:
            ConfigError: it holds no authority.
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
        """Add the file's authorities if it changed; those known before count until a restart.

        Raises:
            ConfigError: it holds no authority; those known before stay.
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
                f"PENSTOCK_POD_CA_FILE {self._authorities} holds no PEM of an authority: {error}"
            ) from error
        self._read = digest
