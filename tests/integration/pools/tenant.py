"""A tenant: a ServiceAccount with only the pool permissions of the chart's role."""

from pathlib import Path

import yaml

from tests.support.kube.api import Api, ApiError, Object
from tests.unit.charts.rendered import only, render

HEAD = {"apiVersion": "rbac.authorization.k8s.io/v1"}


def tenant(api: Api, namespace: str, kubeconfig: Path, folder: Path) -> Api:
    """Return an API client of an account that has only the role `penstock-pool-edit` in its namespace."""
    accounts = f"/api/v1/namespaces/{namespace}/serviceaccounts"
    api.request("POST", accounts, {"metadata": {"name": "tenant"}})
    role = only(render(), "ClusterRole", "-pool-edit")
    roles = f"/apis/rbac.authorization.k8s.io/v1/namespaces/{namespace}"
    named = {"metadata": {"name": "tenant"}}
    api.request("POST", f"{roles}/roles", {**HEAD, "kind": "Role", **named, "rules": role["rules"]})
    reference = {"apiGroup": "rbac.authorization.k8s.io", "kind": "Role", "name": "tenant"}
    subject = {"kind": "ServiceAccount", "name": "tenant", "namespace": namespace}
    binding = {**HEAD, "kind": "RoleBinding", **named, "roleRef": reference, "subjects": [subject]}
    api.request("POST", f"{roles}/rolebindings", binding)
    token_request = {"apiVersion": "authentication.k8s.io/v1", "kind": "TokenRequest", "spec": {}}
    token = api.request("POST", f"{accounts}/tenant/token", token_request)["status"]["token"]
    config = yaml.safe_load(kubeconfig.read_text())
    config["users"] = [{"name": user["name"], "user": {"token": token}} for user in config["users"]]
    file = folder / "tenant.kubeconfig"
    file.write_text(yaml.safe_dump(config))
    return Api(str(file))


def rejection(api: Api, method: str, path: str, body: Object) -> tuple[int, str]:
    """Return status and message of the API server's rejection; an accepted request is an assertion error."""
    try:
        api.request(method, path, body)
    except ApiError as error:
        return error.status, error.message
    raise AssertionError(f"{method} {path} was accepted")
