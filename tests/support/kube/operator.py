"""The operator that helm installed: stop, start, upgrade, restart count."""

from dataclasses import dataclass

from tests.support.kube.api import Api, Object
from tests.support.kube.install import CHART, OPERATOR_NAMESPACE, RELEASE
from tests.support.kube.pods import restarts
from tests.support.kube.pools import is_ready, until
from tests.support.kube.target import Target

PODS = f"/api/v1/namespaces/{OPERATOR_NAMESPACE}/pods?labelSelector=app.kubernetes.io/component%3Doperator"
DEPLOYMENTS = f"/apis/apps/v1/namespaces/{OPERATOR_NAMESPACE}/deployments"


@dataclass(frozen=True, slots=True)
class InstalledOperator:
    """The one release of the chart."""

    target: Target
    api: Api

    def pods(self) -> list[Object]:
        """Return its pods, terminating ones included."""
        return self.api.list(PODS)

    def stop(self) -> None:
        """Scale the operator to zero and wait until its pods are gone."""
        self._scale(0)
        until("the operator gone", lambda: not self.pods(), seconds=60)

    def start(self) -> None:
        """Scale the operator to one replica and wait until it is ready."""
        self._scale(1)
        until("the operator ready", lambda: any(map(is_ready, self.pods())), seconds=60)

    def change(self, *settings: str) -> None:
        """Upgrade the release with these settings, keep all others, and wait for its pods."""
        sets = [word for setting in settings for word in ("--set", setting)]
        kept = ("-n", OPERATOR_NAMESPACE, "--reuse-values", "--wait")
        self.target.helm("upgrade", RELEASE, CHART, *kept, *sets)

    def restarts(self) -> dict[str, int]:
        """Return the number of restarts of each of its pods by the pod's UID, which shows a crash loop."""
        return {pod["metadata"]["uid"]: restarts(pod) for pod in self.pods()}

    def _scale(self, replicas: int) -> None:
        (deployment,) = self.api.list(DEPLOYMENTS)
        path = f"{DEPLOYMENTS}/{deployment['metadata']['name']}/scale"
        self.api.merge(path, {"spec": {"replicas": replicas}})
