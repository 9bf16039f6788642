"""`serving_tls`: a server of JSON that the API server calls: an extension API server, or an admission webhook."""

import datetime as dt
import ipaddress
import json
import ssl
import threading
from collections.abc import Iterator, Mapping
from contextlib import contextmanager
from dataclasses import dataclass
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
from pathlib import Path
from typing import Any, Protocol

from cryptography import x509
from cryptography.hazmat.primitives import hashes
from cryptography.hazmat.primitives.asymmetric import ec
from cryptography.hazmat.primitives.serialization import Encoding, NoEncryption, PrivateFormat
from cryptography.x509.oid import NameOID

from tests.support.kube.api import Api


def certificate(folder: Path, address: str) -> str:
    """Write a self-signed certificate for an address, and return it as the CA certificate."""
    key = ec.generate_private_key(ec.SECP256R1())
    name = x509.Name([x509.NameAttribute(NameOID.COMMON_NAME, "tests")])
    now = dt.datetime.now(dt.UTC)
    names_of = x509.SubjectAlternativeName([x509.IPAddress(ipaddress.ip_address(address))])
    signed = (
        x509.CertificateBuilder()
        .subject_name(name)
        .issuer_name(name)
        .public_key(key.public_key())
        .serial_number(x509.random_serial_number())
        .not_valid_before(now - dt.timedelta(hours=1))
        .not_valid_after(now + dt.timedelta(days=1))
        .add_extension(names_of, critical=False)
        .add_extension(x509.BasicConstraints(ca=True, path_length=None), critical=True)
        .sign(key, hashes.SHA256())
    )
    plain = key.private_bytes(Encoding.PEM, PrivateFormat.PKCS8, NoEncryption())
    (folder / "server.key").write_bytes(plain)
    text = signed.public_bytes(Encoding.PEM)
    (folder / "server.crt").write_bytes(text)
    return text.decode()


class JsonAnswers(Protocol):
    """Answers requests with JSON."""

    def answer(self, path: str, body: Any) -> Mapping[str, Any]:
        """Return the answer to a GET (`body` is None) or a POST of JSON."""


@dataclass(frozen=True)
class TlsAddress:
    """Where the server listens, and the certificate that clients trust."""

    host: str
    port: int
    authority: str
    """PEM."""


@contextmanager
def serving_tls(api: Api, answers: JsonAnswers, folder: Path) -> Iterator[TlsAddress]:
    """Serve `answers` over TLS on the node's address."""

    class Handler(BaseHTTPRequestHandler):
        def do_GET(self) -> None:
            self._reply(None)

        def do_POST(self) -> None:
            self._reply(json.loads(self.rfile.read(int(self.headers["Content-Length"]))))

        def _reply(self, given: Any) -> None:
            body = json.dumps(answers.answer(self.path.partition("?")[0], given)).encode()
            self.send_response(200)
            self.send_header("Content-Type", "application/json")
            self.send_header("Content-Length", str(len(body)))
            self.end_headers()
            self.wfile.write(body)

        def log_message(self, format: str, *args: Any) -> None:
            """Suppress the access log."""

    (node,) = api.list("/api/v1/nodes")
    (host,) = [
        entry["address"] for entry in node["status"]["addresses"] if entry["type"] == "InternalIP"
    ]
    authority = certificate(folder, host)
    context = ssl.SSLContext(ssl.PROTOCOL_TLS_SERVER)
    context.load_cert_chain(folder / "server.crt", folder / "server.key")
    server = ThreadingHTTPServer((host, 0), Handler)
    server.socket = context.wrap_socket(server.socket, server_side=True)
    threading.Thread(target=server.serve_forever, daemon=True).start()
    try:
        yield TlsAddress(host, server.server_address[1], authority)
    finally:
        server.shutdown()
        server.server_close()
