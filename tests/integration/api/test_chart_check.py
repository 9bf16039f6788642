"""The checks of `helm test` with the rights that the chart gives them, against an operator with the chart's rights."""

import os
import subprocess
import sys
from collections.abc import Iterator
from pathlib import Path

import pytest

from penstock_operator.installation_check import CHECKS
from tests.support.kube.account import kubeconfig_of
from tests.support.kube.api import Api, load_all, path_of
from tests.support.kube.install import CHART
from tests.support.kube.operator_process import OperatorProcess
from tests.support.kube.target import Target

pytestmark = pytest.mark.integration

RELEASE = "checked"
NAME = f"{RELEASE}-penstock-operator"


@pytest.fixture
def settings(target: Target, namespace: str) -> Iterator[tuple[str, ...]]:
    """An installation without pods, and its settings as arguments of helm."""
    values = (
        "replicas=0,image.repository=x/operator,runtimeImage.repository=x/runtime,crds.install=false,"
        f"rbac.people=false,scope=Namespaces,namespaces={{{namespace}}}"
    )
    sets = ("--namespace", namespace, "--set", values)
    target.helm("install", RELEASE, CHART, *sets)
    yield sets
    target.helm("uninstall", RELEASE, "--namespace", namespace)


def test_every_check_passes_with_the_rights_of_the_charts_test(
    target: Target, api: Api, namespace: str, settings: tuple[str, ...], tmp_path: Path
) -> None:
    shown = ("--show-only", "templates/tests/installation.yaml")
    text = target.helm("template", RELEASE, CHART, *settings, *shown, "--kube-version", "1.36")
    rights = [each for each in load_all(text) if each["kind"] != "Pod"]
    for manifest in rights:
        api.apply(manifest)
    kubeconfig = tmp_path / "administrator.kubeconfig"
    kubeconfig.write_text(target.kubectl("config", "view", "--minify", "--flatten", "--raw"))
    accounts = [
        kubeconfig_of(api, kubeconfig, (namespace, name), tmp_path)
        for name in (NAME, f"{NAME}-test")
    ]
    scope = {"PENSTOCK_SCOPE": "Namespaces", "PENSTOCK_NAMESPACES": namespace}
    operator = OperatorProcess(accounts[0], namespace, tmp_path, "checked", scope)
    operator.start()
    try:
        command = ("-m", "penstock_operator.installation_check", f"--namespace={namespace}")
        done = subprocess.run(
            (sys.executable, *command, f"--deployment={NAME}", *CHECKS),
            env={**os.environ, "KUBECONFIG": str(accounts[1])},
            capture_output=True, text=True, timeout=120, check=False,
        )  # fmt: skip
    finally:
        operator.stop()
        for manifest in rights:
            api.delete(path_of(manifest))
    assert done.returncode == 0, done.stdout + done.stderr
    assert [line.partition(": ")[0] for line in done.stdout.splitlines()] == ["ok"] * len(CHECKS)
    assert done.stdout.splitlines()[-1].startswith("ok: checked_")
