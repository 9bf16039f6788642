"""Kubeconfig of a ServiceAccount, which gives a test process the rights of the account's pods."""

from pathlib import Path

import yaml

from tests.support.kube.api import Api


def kubeconfig_of(api: Api, kubeconfig: Path, account: tuple[str, str], folder: Path) -> Path:
    """Return a kubeconfig for (namespace, name) of a ServiceAccount, by a token that the API server issues."""
    namespace, name = account
    path = f"/api/v1/namespaces/{namespace}/serviceaccounts/{name}/token"
    token_request = {"apiVersion": "authentication.k8s.io/v1", "kind": "TokenRequest", "spec": {}}
    token = api.request("POST", path, token_request)["status"]["token"]
    config = yaml.safe_load(kubeconfig.read_text())
    config["users"] = [{"name": user["name"], "user": {"token": token}} for user in config["users"]]
    file = folder / f"{namespace}-{name}.kubeconfig"
    file.write_text(yaml.safe_dump(config))
    return file
