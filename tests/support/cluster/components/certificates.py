"""The cluster's certificate authority and a certificate for every part, created with openssl."""

import os
from dataclasses import dataclass
from pathlib import Path

from tests.support.cluster.commands import Word, output

DAYS = "365"
CURVE = ("-newkey", "ec", "-pkeyopt", "ec_paramgen_curve:prime256v1", "-noenc")


@dataclass(frozen=True)
class Identity:
    """Subject of a certificate: `user` in `group`; `names` are the addresses under which it serves."""

    file: str
    user: str
    group: str = ""
    names: tuple[str, ...] = ()

    @property
    def subject(self) -> str:
        """The subject in openssl's notation; Kubernetes reads O as the group and CN as the user."""
        group = f"/O={self.group}" if self.group else ""
        return f"{group}/CN={self.user}"


def make_authority(folder: Path) -> None:
    """Write ca.crt and ca.key, and the key pair that signs service account tokens."""
    folder.mkdir(parents=True, mode=0o700)
    crt, key = folder / "ca.crt", folder / "ca.key"
    output(
        [
            "openssl",
            "req",
            "-x509",
            *CURVE,
            "-keyout",
            key,
            "-out",
            crt,
            "-days",
            DAYS,
            "-subj",
            "/CN=penstock-ca",
        ]
    )
    accounts = folder / "accounts.key"
    output(
        [
            "openssl",
            "genpkey",
            "-algorithm",
            "RSA",
            "-pkeyopt",
            "rsa_keygen_bits:2048",
            "-out",
            accounts,
        ]
    )


def make_certificate(folder: Path, identity: Identity) -> None:
    """Write `<file>.crt` and `<file>.key`, signed by the folder's authority."""
    key, request, crt = (folder / f"{identity.file}.{end}" for end in ("key", "csr", "crt"))
    output(["openssl", "req", *CURVE, "-keyout", key, "-out", request, "-subj", identity.subject])
    extensions = folder / f"{identity.file}.ext"
    extensions.write_text(extension_lines(identity))
    authority: list[Word] = [
        "-CA",
        folder / "ca.crt",
        "-CAkey",
        folder / "ca.key",
        "-set_serial",
        f"0x{os.urandom(8).hex()}",
    ]
    output(
        [
            "openssl",
            "x509",
            "-req",
            "-in",
            request,
            *authority,
            "-out",
            crt,
            "-days",
            DAYS,
            "-extfile",
            extensions,
        ]
    )


def extension_lines(identity: Identity) -> str:
    """Return the extensions file: a client's, and a server's where there are names to serve under."""
    lines = ["keyUsage = digitalSignature"]
    if identity.names:
        kinds = (
            f"{'IP' if name.replace('.', '').isdigit() else 'DNS'}:{name}"
            for name in identity.names
        )
        lines += [
            "extendedKeyUsage = clientAuth, serverAuth",
            f"subjectAltName = {', '.join(kinds)}",
        ]
    else:
        lines += ["extendedKeyUsage = clientAuth"]
    return "\n".join(lines) + "\n"
