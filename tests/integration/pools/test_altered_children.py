"""A mutating webhook that replaces a value of the operator's children: reported once, and written again rarely."""

import base64
import ipaddress
import json
import ssl
import threading
import time
from collections.abc import Iterator
from contextlib import contextmanager
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
from pathlib import Path
from typing import Any

import pytest

from penstock_operator.decide.manifests.deployment import REPLICA_SETS_KEPT
from tests.integration.pools.test_children import BARE, await_children
from tests.integration.signals.test_real_clusters import certificate
from tests.support.kube.api import Api, Object
from tests.support.kube.pools import PoolHandle, until

pytestmark = pytest.mark.integration

WEBHOOKS = "/apis/admissionregistration.k8s.io/v1/mutatingwebhookconfigurations"
NAME = "alters-deployments"
PATCH = [{"op": "replace", "path": "/spec/revisionHistoryLimit", "value": 7}]


class Webhook(ThreadingHTTPServer):
    """An admission webhook that sets `revisionHistoryLimit` of every Deployment."""

    reviews = 0


class WebhookHandler(BaseHTTPRequestHandler):
    """Answers every review with the patch."""

    server: Webhook

    def do_POST(self) -> None:
        review = json.loads(self.rfile.read(int(self.headers["Content-Length"])))
        self.server.reviews += 1
        response = {
            "uid": review["request"]["uid"],
            "allowed": True,
            "patchType": "JSONPatch",
            "patch": base64.b64encode(json.dumps(PATCH).encode()).decode(),
        }
        head = {"apiVersion": "admission.k8s.io/v1", "kind": "AdmissionReview"}
        body = json.dumps({**head, "response": response}).encode()
        self.send_response(200)
        self.send_header("Content-Type", "application/json")
        self.send_header("Content-Length", str(len(body)))
        self.end_headers()
        self.wfile.write(body)

    def log_message(self, format: str, *args: Any) -> None:
        """Suppress the access log."""


@contextmanager
def webhook(api: Api, namespace: str, folder: Path) -> Iterator[Webhook]:
    """Serve the webhook over TLS on the node's address, for Deployments of one namespace."""
    (node,) = api.list("/api/v1/nodes")
    (address,) = [
        entry["address"] for entry in node["status"]["addresses"] if entry["type"] == "InternalIP"
    ]
    authority = certificate(folder, str(ipaddress.ip_address(address)))
    context = ssl.SSLContext(ssl.PROTOCOL_TLS_SERVER)
    context.load_cert_chain(folder / "server.crt", folder / "server.key")
    server = Webhook((address, 0), WebhookHandler)
    server.socket = context.wrap_socket(server.socket, server_side=True)
    threading.Thread(target=server.serve_forever, daemon=True).start()
    rule = {
        "apiGroups": ["apps"],
        "apiVersions": ["v1"],
        "operations": ["CREATE", "UPDATE"],
        "resources": ["deployments"],
    }
    entry: Object = {
        "name": "alters.penstock.dev",
        "clientConfig": {
            "url": f"https://{address}:{server.server_address[1]}/",
            "caBundle": base64.b64encode(authority.encode()).decode(),
        },
        "rules": [rule],
        "namespaceSelector": {"matchLabels": {"kubernetes.io/metadata.name": namespace}},
        "sideEffects": "None",
        "admissionReviewVersions": ["v1"],
    }
    kind = {"apiVersion": "admissionregistration.k8s.io/v1", "kind": "MutatingWebhookConfiguration"}
    api.request("POST", WEBHOOKS, {**kind, "metadata": {"name": NAME}, "webhooks": [entry]})
    try:
        yield server
    finally:
        api.request("DELETE", f"{WEBHOOKS}/{NAME}")
        server.shutdown()
        server.server_close()


def test_a_child_that_a_webhook_alters_is_reported_and_written_rarely(
    api: Api, pool: PoolHandle, tmp_path: Path
) -> None:
    with webhook(api, pool.namespace, tmp_path) as server:
        pool.apply(BARE)
        await_children(api, pool)

        def reported() -> bool | str:
            condition = pool.condition("UpToDate")
            return condition.get("reason") == "ChildAltered" or str(condition)

        until("the condition names the alteration", reported, seconds=20)
        assert "replaced spec.revisionHistoryLimit" in pool.condition("UpToDate")["message"]
        assert pool.condition("Ready")["reason"] != "ChildRejected"
        before = server.reviews
        time.sleep(12)
        assert server.reviews - before <= 1

    api.merge(pool.children["Deployment"], {"spec": {"revisionHistoryLimit": REPLICA_SETS_KEPT}})
    until("the condition ends", lambda: reported() is not True, seconds=20)
