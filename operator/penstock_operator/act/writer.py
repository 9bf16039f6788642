"""The one gate that every write to the API server goes through: budget, then Lease, then request."""

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
    """Sends writes while the Lease is ours."""

    cluster: ApiClient
    budget: WriteBudget
    leading: Callable[[str | None], bool]
    """Whether the Lease is ours that counts in a namespace; None: for what is in none."""

    async def write(
        self, kind: ResourceKind, verb: str, request: ApiRequest, urgency: Urgency
    ) -> Json:
        """Send a write and return the object as the API server answered it.

        Raises:
            NotLeading: the Lease is not ours at the moment of sending, first or again.
            ClusterError: what the API server said.
        """
        await self.budget.turn(urgency)
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
            raise NotLeading("the Lease is not ours")
