"""Test certificates: an authority, and server certificates that it signs."""

from dataclasses import dataclass
from datetime import UTC, datetime, timedelta
from pathlib import Path

from cryptography import x509
from cryptography.hazmat.primitives.asymmetric import ec
from cryptography.hazmat.primitives.hashes import SHA256
from cryptography.hazmat.primitives.serialization import Encoding, NoEncryption, PrivateFormat
from cryptography.x509.oid import NameOID

from penstock_api.certificates import CERTIFICATE_FILE, KEY_FILE


@dataclass(frozen=True, slots=True)
class Authority:
    """An authority whose certificates are valid for a few days."""

    key: ec.EllipticCurvePrivateKey
    certificate: x509.Certificate

    @classmethod
    def make(cls, name: str = "authority") -> "Authority":
        key = ec.generate_private_key(ec.SECP256R1())
        basic = x509.BasicConstraints(ca=True, path_length=None)
        built = _builder(name, name, key).add_extension(basic, critical=True)
        return cls(key, built.sign(key, SHA256()))

    def pem(self) -> str:
        return self.certificate.public_bytes(Encoding.PEM).decode()

    def issue(self, folder: Path, name: str) -> int:
        """Write a certificate for one DNS name, and its key; return its serial number."""
        key = ec.generate_private_key(ec.SECP256R1())
        issuer = self.certificate.subject.get_attributes_for_oid(NameOID.COMMON_NAME)[0].value
        names = x509.SubjectAlternativeName([x509.DNSName(name)])
        built = _builder(name, str(issuer), key).add_extension(names, critical=False)
        signed = built.sign(self.key, SHA256())
        folder.mkdir(exist_ok=True)
        (folder / CERTIFICATE_FILE).write_bytes(signed.public_bytes(Encoding.PEM))
        (folder / KEY_FILE).write_bytes(
            key.private_bytes(Encoding.PEM, PrivateFormat.PKCS8, NoEncryption())
        )
        return signed.serial_number


def _builder(name: str, issuer: str, key: ec.EllipticCurvePrivateKey) -> x509.CertificateBuilder:
    now = datetime.now(UTC)
    return (
        x509.CertificateBuilder()
        .subject_name(x509.Name([x509.NameAttribute(NameOID.COMMON_NAME, name)]))
        .issuer_name(x509.Name([x509.NameAttribute(NameOID.COMMON_NAME, issuer)]))
        .public_key(key.public_key())
        .serial_number(x509.random_serial_number())
        .not_valid_before(now - timedelta(hours=1))
        .not_valid_after(now + timedelta(days=2))
    )
