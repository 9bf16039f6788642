"""The few calls that starting a cluster needs to make of its API server, by the standard library."""

import json
import ssl
import urllib.error
import urllib.request
from pathlib import Path

from tests.support.cluster import settings

JSON_PATCH = "application/json-patch+json"


class ClusterApi:
    """The API server as its administrator sees it."""

    def __init__(self, pki: Path) -> None:
        context = ssl.create_default_context(cafile=str(pki / "ca.crt"))
        context.load_cert_chain(pki / "admin.crt", pki / "admin.key")
        handlers = (urllib.request.HTTPSHandler(context=context), urllib.request.ProxyHandler({}))
        self._opener = urllib.request.build_opener(*handlers)

    def text(self, path: str, *, timeout_seconds: float = 2) -> str:
        """GET a path; raises OSError where it cannot be had."""
        with self._opener.open(f"{settings.API_SERVER}{path}", timeout=timeout_seconds) as answer:
            return str(answer.read().decode())

    def json(self, path: str) -> dict[str, object]:
        """GET a path that answers with a JSON object."""
        value = json.loads(self.text(path))
        return value if isinstance(value, dict) else {}

    def patch(self, path: str, operations: list[dict[str, object]]) -> None:
        """PATCH a path with JSON Patch operations."""
        request = urllib.request.Request(  # noqa: S310 - https, by settings
            f"{settings.API_SERVER}{path}",
            data=json.dumps(operations).encode(),
            method="PATCH",
            headers={"Content-Type": JSON_PATCH},
        )
        self._opener.open(request, timeout=5).close()

    def not_ready(self) -> str | None:
        """Return why the API server is not ready, or None when it is."""
        try:
            self.text("/readyz")
        except OSError as error:
            return str(error)
        return None

    def node_not_ready(self) -> str | None:
        """Return why the node is not Ready, or None when it is."""
        try:
            node = self.json(f"/api/v1/nodes/{settings.NODE_NAME}")
        except OSError as error:
            return str(error)
        status = node.get("status")
        conditions = status.get("conditions", []) if isinstance(status, dict) else []
        ready = next((item for item in conditions if item["type"] == "Ready"), None)
        if ready is None:
            return "the node has no Ready condition yet"
        return None if ready["status"] == "True" else f"{ready['reason']}: {ready['message']}"

    def advertise_gpus(self) -> None:
        """Give the node GPUs it has not: the kubelet keeps the figure, the scheduler honours it."""
        name = settings.GPU_RESOURCE.replace("/", "~1")
        operations: list[dict[str, object]] = [
            {"op": "add", "path": f"/status/{field}/{name}", "value": str(settings.GPUS)}
            for field in ("capacity", "allocatable")
        ]
        self.patch(f"/api/v1/nodes/{settings.NODE_NAME}/status", operations)
