"""The installed operator: stopped, started, watched."""

from dataclasses import dataclass

from tests.support.kube.api import Api, Object
from tests.support.kube.install import CHART, OPERATOR_NAMESPACE, RELEASE
from tests.support.kube.pools import is_ready, until
from tests.support.kube.target import Target

PODS = (
    f"/api/v1/namespaces/{OPERATOR_NAMESPACE}/pods?labelSelector=app.kubernetes.io/name%3Dpenstock"
)
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
        """Scale it to nothing and wait until it is gone."""
        self._scale(0)
        until("the operator gone", lambda: not self.pods(), seconds=60)

    def start(self) -> None:
        """Bring it back and wait until it is ready."""
        self._scale(1)
        until("the operator ready", lambda: any(map(is_ready, self.pods())), seconds=60)

    def change(self, *settings: str) -> None:
        """Upgrade the release by these settings, all others as they are, and wait for its pods."""
        sets = [word for one in settings for word in ("--set", one)]
        kept = ("-n", OPERATOR_NAMESPACE, "--reuse-values", "--wait")
        self.target.helm("upgrade", RELEASE, CHART, *kept, *sets)

    def restarts(self) -> int:
        """Return how often its containers were restarted: a crash loop would show here."""
        statuses = [
            one for pod in self.pods() for one in pod["status"].get("containerStatuses", [])
        ]
        return sum(one["restartCount"] for one in statuses)

    def _scale(self, replicas: int) -> None:
        (deployment,) = self.api.list(DEPLOYMENTS)
        path = f"{DEPLOYMENTS}/{deployment['metadata']['name']}/scale"
        self.api.merge(path, {"spec": {"replicas": replicas}})
