"""`python -m penstock_runtime` as a process on loopback, by default with the emulated accelerator."""

import base64
import json
import os
import secrets
import subprocess
import sys
import time
import urllib.error
import urllib.request
from collections.abc import Mapping
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

import jwt
from cryptography.hazmat.primitives.asymmetric.ed25519 import Ed25519PrivateKey
from cryptography.hazmat.primitives.serialization import Encoding, PublicFormat

INHERITED_ENVIRONMENT = {
    name: os.environ[name] for name in ("PATH", "PYTHONPATH") if name in os.environ
}
"""Inherited variables with the paths of programs and sources under test."""
START_SECONDS = 240.0
"""Limit of a start or an exit on a busy machine; torch is imported twice if the engine has its own process."""


@dataclass(slots=True)
class RuntimeProcess:
    """A runtime process and the signing key of its operator."""

    process: subprocess.Popen[bytes]
    log: Path
    folder: Path
    key: Ed25519PrivateKey = field(repr=False)
    host: str = "127.0.0.1"
    uid: str = "uid-0"
    client: str = ""
    cluster: str = ""

    def listening(self) -> None:
        """Wait until both ports are known."""
        line = self.wait_for_log("listening")
        self.client = f"http://{self.host}:{line['client_port']}"
        self.cluster = f"http://{self.host}:{line['cluster_port']}"

    def ready(self) -> None:
        """Wait until `/readyz` is 200."""
        self.listening()
        deadline = time.monotonic() + START_SECONDS
        while self.get("/readyz")[0] != 200:
            assert self.process.poll() is None, self.log.read_text()
            assert time.monotonic() < deadline, self.log.read_text()
            time.sleep(0.05)

    def wait_for_log(self, message: str) -> dict[str, Any]:
        """Return the first log line with `message`."""
        deadline = time.monotonic() + START_SECONDS
        while time.monotonic() < deadline:
            for line in self.log.read_text().splitlines():
                if line.startswith("{") and json.loads(line)["message"] == message:
                    return dict(json.loads(line))
            assert self.process.poll() is None, self.log.read_text()
            time.sleep(0.02)
        raise AssertionError(f"{message!r} was not logged: {self.log.read_text()}")

    def get(self, path: str, **headers: str) -> tuple[int, str]:
        """GET a path of the cluster port."""
        request = urllib.request.Request(  # noqa: S310 - loopback
            self.cluster + path, headers=self.token() | headers
        )
        return _fetch(request)

    def patch_limits(self, **limits: Any) -> tuple[int, dict[str, Any]]:
        """PATCH the limits as the operator does."""
        request = urllib.request.Request(  # noqa: S310 - loopback
            f"{self.cluster}/control/v1/limits",
            method="PATCH",
            data=json.dumps(limits).encode(),
            headers=self.token(generation=limits["generation"]),
        )
        status, text = _fetch(request)
        return status, json.loads(text)

    def token(self, **claims: Any) -> dict[str, str]:
        """Return an Authorization header with a valid token."""
        claims = {
            "aud": self.uid,
            "exp": time.time() + 30,
            "jti": secrets.token_hex(16),
            **claims,
        }
        return {"Authorization": "Bearer " + jwt.encode(claims, self.key, "EdDSA", {"kid": "k"})}

    def metric(self, sample: str) -> float:
        """Return one sample of the cluster port's metrics."""
        for line in self.get("/metrics")[1].splitlines():
            if line.startswith(sample + " "):
                return float(line.split()[-1])
        raise AssertionError(f"no sample {sample}")

    def kill(self) -> None:
        """Kill the process."""
        self.process.kill()
        self.process.wait()

    def stopped(self, within_seconds: float = START_SECONDS) -> int:
        """Wait for the exit and return the exit code."""
        return self.process.wait(within_seconds)


def children(pid: int) -> list[int]:
    """Return the children of a process."""
    files = Path(f"/proc/{pid}/task").glob("*/children")
    return [int(pid) for file in files for pid in file.read_text().split()]


def engines(pid: int) -> list[int]:
    """Return the children that run an engine, without the fork server of grammars."""
    return [
        child
        for child in children(pid)
        if b"penstock_runtime.engine.link." in Path(f"/proc/{child}/cmdline").read_bytes()
    ]


def _fetch(request: urllib.request.Request) -> tuple[int, str]:
    try:
        with urllib.request.urlopen(request, timeout=60) as reply:  # noqa: S310 - loopback
            return reply.status, reply.read().decode()
    except urllib.error.HTTPError as error:
        with error:
            return error.code, error.read().decode()


def start(
    folder: Path,
    arguments: dict[str, str] | None = None,
    *,
    factory: str = "penstock_runtime.models.emulated:create",
    limits: dict[str, Any] | None = None,
    model: dict[str, Any] | None = None,
    program: str = "penstock_runtime",
    control_keys: Mapping[str, str] | None = None,
    **environment: str,
) -> RuntimeProcess:
    """Start the module `program` with model arguments, limits and environment; `folder` contains its settings.

    It trusts `control_keys` besides the key of the process that is returned.
    """
    key = Ed25519PrivateKey.generate()
    raw = key.public_key().public_bytes(Encoding.Raw, PublicFormat.Raw)
    keys = {**(control_keys or {}), "k": base64.b64encode(raw).decode()}
    (folder / "control-keys.json").write_text(json.dumps(keys))
    (folder / "termination-log").touch()
    if limits:
        (folder / "limits.json").write_text(json.dumps(limits))
    module = {"factory": factory, "arguments": arguments or {}}
    model = model or {"name": "demo", "source": {"type": "Module", "module": module}}
    log = folder / "log"
    ours = {
        "PENSTOCK_MODEL": json.dumps(model),
        "PENSTOCK_POD_UID": "uid-0",
        "PENSTOCK_SETTINGS_FOLDER": str(folder),
        "PENSTOCK_TERMINATION_LOG": str(folder / "termination-log"),
        "PENSTOCK_HOST": "127.0.0.1",
        "PENSTOCK_CLIENT_PORT": "0",
        "PENSTOCK_CLUSTER_PORT": "0",
        "PENSTOCK_LOG_FORMAT": "json",
    }
    ours |= environment
    with log.open("wb") as stream:
        process = subprocess.Popen(
            [sys.executable, "-m", program],
            cwd=folder,
            stderr=stream,
            env={**INHERITED_ENVIRONMENT, "OMP_NUM_THREADS": "1", **ours},
        )
    return RuntimeProcess(
        process, log, folder, key, ours["PENSTOCK_HOST"], ours["PENSTOCK_POD_UID"]
    )
