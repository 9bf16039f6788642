"""Gate for every write to the API server: rate limit, then Lease, then request."""

from collections.abc import Callable
from dataclasses import dataclass

from penstock_operator.act.rate_limit import Urgency, WriteBudget
from penstock_operator.errors import ClusterError, NotLeading
from penstock_operator.kube.client import ApiClient, ApiRequest, Json
from penstock_operator.kube.kinds import ResourceKind
from penstock_operator.telemetry import metrics

APPLY = "application/apply-patch+yaml"
JSON_PATCH = "application/json-patch+json"


@dataclass(frozen=True, slots=True)
class Writer:
    """Sends writes while this process holds the Lease."""

    cluster: ApiClient
    budget: WriteBudget
    leading: Callable[[str | None], bool]
    """Returns whether this process may write in a namespace; None: to cluster-scoped objects."""

    async def write(
        self, kind: ResourceKind, verb: str, request: ApiRequest, urgency: Urgency
    ) -> Json:
        """Send a write and return the object in the response.

        Raises:
            NotLeading: this process did not hold the Lease right before an attempt.
            ClusterError: the error response of the API server.
        """
        await self.budget.turn(urgency)
        return await self.send(kind, verb, request)

    async def send(self, kind: ResourceKind, verb: str, request: ApiRequest) -> Json:
        """Send a write that the rate limit has admitted. Returns and raises as `write`."""
        outcome = "ok"
        try:
            return await self.cluster.send(request, lambda: self._permit(request.namespace))
        except ClusterError as error:
            outcome = error.reason
            raise
        except NotLeading:
            outcome = "NotLeading"
            raise
        finally:
            metrics.WRITES.labels(kind.kind, verb, outcome).inc()

    def _permit(self, namespace: str | None) -> None:
        if not self.leading(namespace):
            raise NotLeading("this process does not hold the Lease")
