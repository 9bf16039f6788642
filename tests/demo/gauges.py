"""Queue and duty of the pool's pods, from the Prometheus of the demo through the API server's proxy."""

import json
from urllib.parse import quote

from penstock_api.names import METRIC_GPU_UTILIZATION, METRIC_REQUESTS_WAITING
from tests.demo.moment import Gauges
from tests.support.kube.api import Api, ApiError
from tests.support.kube.install import PROMETHEUS_SERVICE


def read(api: Api, namespace: str, pool: str) -> Gauges:
    """Return the gauges; None where Prometheus does not answer or has no sample."""
    selector = f'{{namespace="{namespace}",pool="{pool}"}}'
    return Gauges(
        waiting=_number(api, f"sum({METRIC_REQUESTS_WAITING}{selector})"),
        duty=_number(api, f"avg({METRIC_GPU_UTILIZATION}{selector})"),
    )


def _number(api: Api, query: str) -> float | None:
    path = f"{PROMETHEUS_SERVICE}/proxy/api/v1/query?query={quote(query)}"
    try:
        result = json.loads(api.text(path))["data"]["result"]
    except (ApiError, ValueError, KeyError):
        return None
    return float(result[0]["value"][1]) if result else None
