"""A mutating webhook that replaces a value of the operator's children: reported once, and written again rarely."""

import base64
import json
import time
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import Any

import pytest

from penstock_operator.decide.manifests.deployment import REPLICA_SETS_KEPT
from tests.integration.pools.test_children import BARE, await_children
from tests.support.kube.api import Api, Object
from tests.support.kube.pools import PoolHandle, until
from tests.support.kube.tls_server import serving_tls

pytestmark = pytest.mark.integration

WEBHOOKS = "/apis/admissionregistration.k8s.io/v1/mutatingwebhookconfigurations"
NAME = "alters-deployments"
PATCH = [{"op": "replace", "path": "/spec/revisionHistoryLimit", "value": 7}]


class Webhook:
    """An admission webhook that sets `revisionHistoryLimit` of every Deployment."""

    reviews = 0

    def answer(self, path: str, body: Any) -> Object:
        self.reviews += 1
        response = {
            "uid": body["request"]["uid"],
            "allowed": True,
            "patchType": "JSONPatch",
            "patch": base64.b64encode(json.dumps(PATCH).encode()).decode(),
        }
        head = {"apiVersion": "admission.k8s.io/v1", "kind": "AdmissionReview"}
        return {**head, "response": response}


@contextmanager
def webhook(api: Api, namespace: str, folder: Path) -> Iterator[Webhook]:
    """Serve the webhook for Deployments of one namespace."""
    hook = Webhook()
    with serving_tls(api, hook, folder) as address:
        rule = {
            "apiGroups": ["apps"],
            "apiVersions": ["v1"],
            "operations": ["CREATE", "UPDATE"],
            "resources": ["deployments"],
        }
        entry: Object = {
            "name": "alters.penstock.dev",
            "clientConfig": {
                "url": f"https://{address.host}:{address.port}/",
                "caBundle": base64.b64encode(address.authority.encode()).decode(),
            },
            "rules": [rule],
            "namespaceSelector": {"matchLabels": {"kubernetes.io/metadata.name": namespace}},
            "sideEffects": "None",
            "admissionReviewVersions": ["v1"],
        }
        kind = {
            "apiVersion": "admissionregistration.k8s.io/v1",
            "kind": "MutatingWebhookConfiguration",
        }
        api.request("POST", WEBHOOKS, {**kind, "metadata": {"name": NAME}, "webhooks": [entry]})
        try:
            yield hook
        finally:
            api.request("DELETE", f"{WEBHOOKS}/{NAME}")


def test_a_child_that_a_webhook_alters_is_reported_and_written_rarely(
    api: Api, pool: PoolHandle, tmp_path: Path
) -> None:
    with webhook(api, pool.namespace, tmp_path) as hook:
        pool.apply(BARE)
        await_children(api, pool)

        def reported() -> bool | str:
            condition = pool.condition("UpToDate")
            return condition.get("reason") == "ChildAltered" or str(condition)

        until("the condition names the alteration", reported, seconds=20)
        assert "replaced spec.revisionHistoryLimit" in pool.condition("UpToDate")["message"]
        assert pool.condition("Ready")["reason"] != "ChildRejected"
        before = hook.reviews
        time.sleep(12)
        assert hook.reviews - before <= 1

    api.merge(pool.children["Deployment"], {"spec": {"revisionHistoryLimit": REPLICA_SETS_KEPT}})
    until("the condition ends", lambda: reported() is not True, seconds=20)
