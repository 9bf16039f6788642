"""A group of two pods by a LeaderWorkerSet: its variables, its leader's name in DNS, and its end."""

import pytest

from tests.support.kube import groups, namespaces
from tests.support.kube.api import Api
from tests.support.kube.install import Images
from tests.support.kube.pools import until

SCRIPT = """
until getent hosts "$LWS_LEADER_ADDRESS" > /dev/null; do sleep 0.2; done
echo "$LWS_LEADER_ADDRESS $LWS_GROUP_SIZE $LWS_WORKER_INDEX"
exec sleep infinity
"""

pytestmark = pytest.mark.usefixtures("leader_worker_sets")


def test_both_pods_of_a_group_find_the_leader_and_end_with_their_object(
    api: Api, images: Images, namespace: str
) -> None:
    security = {
        "runAsNonRoot": True, "allowPrivilegeEscalation": False,
        "capabilities": {"drop": ["ALL"]}, "seccompProfile": {"type": "RuntimeDefault"},
    }  # fmt: skip
    main = {
        "name": "main", "image": images.runtime, "command": ["sh", "-c", SCRIPT],
        "securityContext": security,
    }  # fmt: skip
    pod = {"containers": [main], "terminationGracePeriodSeconds": 1}
    api.create(groups.leader_worker_set(namespace, "pair", 2, pod))
    address = f"pair-0.pair.{namespace}"
    expected = {"pair-0": f"{address} 2 0\n", "pair-0-1": f"{address} 2 1\n"}

    def written() -> bool | str:
        pods = api.list(f"/api/v1/namespaces/{namespace}/pods")
        phases = {pod["metadata"]["name"]: pod["status"].get("phase") for pod in pods}
        running = [name for name, phase in phases.items() if phase == "Running"]
        logs = {
            name: api.text(f"/api/v1/namespaces/{namespace}/pods/{name}/log") for name in running
        }
        return logs == expected or f"{phases}: {logs}"

    until("both pods resolve the leader's address", written)
    api.delete(groups.path(namespace, "pair"))
    namespaces.await_no_pods(api, namespace)
