"""An operator that may not read what it must ends at once, and says what to do."""

from pathlib import Path

import pytest
import yaml

from tests.integration.pools.conftest import Operator
from tests.kube.api import Api

pytestmark = pytest.mark.integration


def test_an_operator_without_rights_ends_with_the_remedy(
    api: Api, namespace: str, operator: Operator, kubeconfig: Path, tmp_path: Path
) -> None:
    accounts = f"/api/v1/namespaces/{namespace}/serviceaccounts"
    api.request("POST", accounts, {"metadata": {"name": "nobody"}})
    asked = {"apiVersion": "authentication.k8s.io/v1", "kind": "TokenRequest", "spec": {}}
    token = api.request("POST", f"{accounts}/nobody/token", asked)["status"]["token"]
    config = yaml.safe_load(kubeconfig.read_text())
    config["users"] = [{"name": one["name"], "user": {"token": token}} for one in config["users"]]
    file = tmp_path / "kubeconfig"
    file.write_text(yaml.safe_dump(config))

    nobody = operator.as_user("nobody", file)

    assert nobody.run_to_its_end() == 1
    assert "403" in nobody.log()
    assert "install the chart's CRDs" in nobody.log()
