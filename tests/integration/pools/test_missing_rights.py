"""An operator without the permissions it needs exits at once with the remedy."""

from pathlib import Path

import pytest

from tests.support.kube.account import kubeconfig_of
from tests.support.kube.api import Api
from tests.support.kube.operator_process import OperatorProcess

pytestmark = pytest.mark.integration


def test_an_operator_without_rights_ends_with_the_remedy(
    api: Api, namespace: str, operator: OperatorProcess, kubeconfig: Path, tmp_path: Path
) -> None:
    accounts = f"/api/v1/namespaces/{namespace}/serviceaccounts"
    api.request("POST", accounts, {"metadata": {"name": "unprivileged"}})
    file = kubeconfig_of(api, kubeconfig, (namespace, "unprivileged"), tmp_path)

    process = operator.as_user("unprivileged", file)

    assert process.run_to_its_end() == 1
    assert "403" in process.log()
    assert "install the chart's CRDs" in process.log()
