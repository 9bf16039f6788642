"""`CertificateStore`: the certificates of pools that serve TLS, from a folder with a folder `<pool>` for each of them.

The kubelet swaps the files atomically. A pair that cannot be used, or a Secret that is gone, changes nothing: the pool
keeps its last valid certificate, as its pods do.
"""

import logging
import ssl
from collections.abc import Mapping
from dataclasses import dataclass, field
from pathlib import Path
from typing import Final

from penstock_api.certificates import (
    CERTIFICATE_FILE,
    KEY_FILE,
    CertificateUnusable,
    ServerCertificate,
)
from penstock_gateway.objects import PoolCertificate

log = logging.getLogger(__name__)

AUTHORITY_FILE: Final = "ca.crt"
CHECK_SECONDS: Final = 2.0
"""Time between two checks, far below the minute or so that the kubelet takes to update a mounted Secret."""


@dataclass(slots=True)
class CertificateStore:
    """The last valid certificate of each pool, and what is wrong with the newest files, by pool."""

    folder: Path
    valid: Mapping[str, PoolCertificate] = field(default_factory=dict)
    problems: Mapping[str, str] = field(default_factory=dict)
    """Why the files of a pool are not in use."""

    @property
    def known(self) -> Mapping[str, PoolCertificate | str]:
        """The certificate of each pool, or why there is none."""
        return {**self.problems, **self.valid}

    def refresh(self) -> bool:
        """Read the folder; return whether a certificate or a problem changed."""
        valid, problems = dict(self.valid), {}
        for entry in sorted(self.folder.glob("[!.]*")):
            try:
                valid[entry.name] = _read(entry.resolve(), valid.get(entry.name))
            except CertificateUnusable as error:
                problems[entry.name] = str(error)
        if (valid, problems) == (self.valid, self.problems):
            return False
        for pool, problem in problems.items():
            if self.problems.get(pool) != problem:
                log.error("certificate of pool %s: %s", pool, problem)
        self.valid, self.problems = valid, problems
        return True


def _read(folder: Path, former: PoolCertificate | None) -> PoolCertificate:
    """Return the certificate in a folder that no swap changes: its path is resolved."""
    ServerCertificate(folder)
    try:
        chain, key = ((folder / name).read_text("ascii") for name in (CERTIFICATE_FILE, KEY_FILE))
        file = folder / AUTHORITY_FILE
        authorities = file.read_text("ascii").strip() if file.exists() else ""
    except (OSError, ValueError) as error:
        raise CertificateUnusable(f"the files in {folder} are not PEM: {error}") from error
    if authorities:
        _check(authorities)
    known = former.authorities if former else ""
    if authorities not in known:
        known = f"{known}\n{authorities}".strip()
    return PoolCertificate(chain, key, known)


def _check(authorities: str) -> None:
    """Raise `CertificateUnusable` unless every block is a certificate: Envoy rejects a cluster for a single broken one."""
    try:
        ssl.SSLContext(ssl.PROTOCOL_TLS_CLIENT).load_verify_locations(cadata=authorities)
    except (ssl.SSLError, ValueError) as error:
        raise CertificateUnusable(
            f"{AUTHORITY_FILE} has a certificate that cannot be read: {error}"
        ) from error
