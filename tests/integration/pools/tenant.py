"""A tenant: an account of a namespace that may do with pools what the chart's role says, and nothing else."""

from pathlib import Path

import yaml

from tests.support.kube.api import Api, ApiError, Object
from tests.unit.charts.rendered import only, render

HEAD = {"apiVersion": "rbac.authorization.k8s.io/v1"}


def tenant(api: Api, namespace: str, kubeconfig: Path, folder: Path) -> Api:
    """Return the API server as an account sees it that has the role `penstock-pool-edit` in its namespace."""
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
    asked = {"apiVersion": "authentication.k8s.io/v1", "kind": "TokenRequest", "spec": {}}
    token = api.request("POST", f"{accounts}/tenant/token", asked)["status"]["token"]
    config = yaml.safe_load(kubeconfig.read_text())
    config["users"] = [{"name": one["name"], "user": {"token": token}} for one in config["users"]]
    file = folder / "tenant.kubeconfig"
    file.write_text(yaml.safe_dump(config))
    return Api(str(file))


def refusal(api: Api, method: str, path: str, body: Object) -> tuple[int, str]:
    """Return the API server's refusal; it is an assertion error if it does what it is asked."""
    try:
        api.request(method, path, body)
    except ApiError as error:
        return error.status, error.message
    raise AssertionError(f"{method} {path} was done")
