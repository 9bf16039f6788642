"""Installations of the chart in scope Namespaces, whose operator runs as a local process with the chart's ServiceAccount."""

from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import dataclass
from pathlib import Path

from tests.support.kube.account import kubeconfig_of
from tests.support.kube.api import Api
from tests.support.kube.install import CHART
from tests.support.kube.operator_process import OperatorProcess
from tests.support.kube.target import Target

SETTINGS = (
    "replicas=0",
    "image.repository=localhost/penstock-operator",
    "defaultRuntimeImage=localhost/penstock-busybox:1",
    "crds.install=false",
    "rbac.people=false",
    "scope=Namespaces",
)


@dataclass(frozen=True, slots=True)
class InstallContext:
    """Clients and paths for an installation of the chart."""

    target: Target
    api: Api
    kubeconfig: Path
    folder: Path

    @contextmanager
    def installed(
        self, home: str, namespaces: tuple[str, ...], *settings: str
    ) -> Iterator[OperatorProcess]:
        """Install the chart in `home` for `namespaces` without pods, and yield its operator, not started."""
        named = ",".join(namespaces)
        given = (*SETTINGS, f"namespaces={{{named}}}", *settings)
        sets = [word for setting in given for word in ("--set", setting)]
        self.target.helm("upgrade", "--install", "penstock", CHART, "--namespace", home, *sets)
        account = (home, "penstock-operator")
        operator = OperatorProcess(
            kubeconfig_of(self.api, self.kubeconfig, account, self.folder),
            home,
            self.folder,
            f"in-{home}",
            {"PENSTOCK_SCOPE": "Namespaces", "PENSTOCK_NAMESPACES": named},
        )
        try:
            yield operator
        finally:
            if operator.running:
                operator.stop()
            self.target.helm("uninstall", "penstock", "--namespace", home, "--ignore-not-found")
