"""Every pod of an installation for OpenShift runs as a user that an SCC like restricted-v2 assigns.

Two admission policies do what OpenShift's admission does with that SCC: one assigns the namespace's user and fsGroup
where a pod names none, the other refuses pods that name IDs of their own. A container's group is then 0, since the
image has no entry of that user.

Source: https://docs.redhat.com/en/documentation/openshift_container_platform/4.19/html/authentication_and_authorization/managing-pod-security-policies
"""

import asyncio
import shutil
from collections.abc import Iterator
from contextlib import ExitStack, contextmanager
from pathlib import Path

import pytest

from penstock_api import names
from tests.e2e.conftest import Figure, MakePool
from tests.e2e.test_chart import PASSED, helm_test
from tests.support.cluster.host import kernel
from tests.support.kube.api import Api, ApiError, Object
from tests.support.kube.install import OPERATOR_NAMESPACE, RELEASE
from tests.support.kube.operator import InstalledOperator
from tests.support.kube.pools import until
from tests.support.kube.target import Target
from tests.support.kube.volumes import node_volume
from tests.support.load.load import Load

pytestmark = [pytest.mark.own_cluster, pytest.mark.alone]
LABEL = "penstock-tests/assigned-ids"
USER = 1_000_650_000
ADMISSION = "admissionregistration.k8s.io/v1"
PODS: Object = {
    "namespaceSelector": {"matchLabels": {LABEL: "true"}},
    "resourceRules": [
        {"apiGroups": [""], "apiVersions": ["v1"], "operations": ["CREATE"], "resources": ["pods"]}
    ],
}
ASSIGN = f"""Object{{spec: Object.spec{{securityContext: Object.spec.securityContext{{
  runAsUser: has(object.spec.securityContext.runAsUser) ? object.spec.securityContext.runAsUser : {USER},
  fsGroup: has(object.spec.securityContext.fsGroup) ? object.spec.securityContext.fsGroup : {USER}}}}}}}"""
REFUSE = (
    f"object.spec.securityContext.runAsUser == {USER}",
    f"object.spec.securityContext.fsGroup == {USER}",
    "!has(object.spec.securityContext.runAsGroup)",
    "!has(object.spec.securityContext.supplementalGroups)",
    "object.spec.containers.all(c, !has(c.securityContext.runAsUser) && !has(c.securityContext.runAsGroup))",
)


def policies(name: str) -> list[Object]:
    """Return both policies with their bindings."""
    head: Object = {"apiVersion": ADMISSION, "metadata": {"name": name}}
    rules: Object = {"failurePolicy": "Fail", "matchConstraints": PODS}
    mutation = {"patchType": "ApplyConfiguration", "applyConfiguration": {"expression": ASSIGN}}
    assign = {**rules, "reinvocationPolicy": "Never", "mutations": [mutation]}
    refuse = {**rules, "validations": [{"expression": each} for each in REFUSE]}
    bound: Object = {"policyName": name}
    return [
        {**head, "kind": "MutatingAdmissionPolicy", "spec": assign},
        {**head, "kind": "MutatingAdmissionPolicyBinding", "spec": bound},
        {**head, "kind": "ValidatingAdmissionPolicy", "spec": refuse},
        {**head, "kind": "ValidatingAdmissionPolicyBinding", "spec": {**bound, "validationActions": ["Deny"]}},
    ]  # fmt: skip


def probe(namespace: str, ids: Object) -> Object:
    """Return a pod that restricted pod security admits, with these IDs."""
    context = {"runAsNonRoot": True, "seccompProfile": {"type": "RuntimeDefault"}, **ids}
    container = {
        "name": "probe",
        "image": "probe",
        "securityContext": {
            "allowPrivilegeEscalation": False,
            "capabilities": {"drop": ["ALL"]},
        },
    }
    return {
        "apiVersion": "v1",
        "kind": "Pod",
        "metadata": {"name": "probe", "namespace": namespace},
        "spec": {"securityContext": context, "containers": [container]},
    }


def admitted(api: Api, namespace: str, ids: Object) -> Object | None:
    """Return the security context with which a pod of these IDs is admitted, or None where it is refused."""
    path = f"/api/v1/namespaces/{namespace}/pods?dryRun=All"
    try:
        context: Object = api.request("POST", path, probe(namespace, ids))["spec"][
            "securityContext"
        ]
    except ApiError as error:
        if "ValidatingAdmissionPolicy" not in str(error):
            raise
        return None
    return context


@contextmanager
def assigning(api: Api, namespaces: tuple[str, ...]) -> Iterator[None]:
    """Assign IDs in these namespaces until the end, once the API server does."""
    objects = policies(f"restricted-v2-{namespaces[-1]}")
    paths = [f"/apis/{ADMISSION}/{plural(each)}" for each in objects]
    try:
        for name in namespaces:
            label(api, name, {LABEL: "true", "pod-security.kubernetes.io/enforce": "restricted"})
        for path, each in zip(paths, objects, strict=True):
            api.request("POST", path, each)

        def in_force() -> bool:
            assigned = admitted(api, namespaces[-1], {})
            given = admitted(api, namespaces[-1], {"runAsUser": 65532})
            return assigned is not None and assigned.get("runAsUser") == USER and given is None

        until("the API server assigns IDs and refuses others", in_force, seconds=30)
        yield
    finally:
        for path, each in zip(paths, objects, strict=True):
            api.delete(f"{path}/{each['metadata']['name']}")
        for name in namespaces:
            label(api, name, {LABEL: None})


def plural(item: Object) -> str:
    """Return the plural of a policy's or a binding's kind."""
    kind: str = item["kind"].lower()
    return f"{kind.removesuffix('y')}ies" if kind.endswith("y") else f"{kind}s"


def label(api: Api, namespace: str, labels: Object) -> None:
    """Set a namespace's labels, and remove those that are None."""
    api.merge(f"/api/v1/namespaces/{namespace}", {"metadata": {"labels": labels}})


@pytest.fixture
def openshift(operator: InstalledOperator, api: Api, namespace: str) -> Iterator[None]:
    """The installation with `platform: OpenShift` and a batch service, where IDs are assigned."""
    root = Path("/var/tmp") / f"penstock-{namespace}"  # noqa: S108  a name of the test's own
    root.mkdir()
    root.chmod(0o777)
    with ExitStack() as stack:
        stack.callback(shutil.rmtree, root)
        claim = {"mode": "ReadWriteOnce", "size": "20Gi"}
        stack.enter_context(node_volume(api, root, namespace, names.BATCHES_NAME, **claim))
        stack.callback(
            operator.change, "platform=Auto", "batches.enabled=false", "batches.namespaces=null"
        )
        stack.enter_context(assigning(api, (OPERATOR_NAMESPACE, namespace)))
        operator.change(
            "platform=OpenShift", "batches.enabled=true", f"batches.namespaces={{{namespace}}}"
        )
        yield


def owners(pod: Object) -> set[tuple[int, int]]:
    """Return user and group of the processes of one pod."""
    pids = kernel.pod_processes(pod["metadata"]["uid"])
    folders = (Path(f"/proc/{pid}").stat() for pid in pids)
    return {(folder.st_uid, folder.st_gid) for folder in folders}


async def test_every_pod_of_an_installation_runs_as_the_user_that_openshift_assigns(
    openshift: None, make_pool: MakePool, target: Target, api: Api, figure: Figure
) -> None:
    pool = make_pool(replicas=2, routing={"mode": "Gateway"})
    await asyncio.to_thread(pool.await_ready, 2)
    await asyncio.to_thread(pool.await_condition, "Routed", "True", seconds=90)
    async with Load(pool.url(), pool.name, rate=20, clients=4) as load:
        for _ in range(5):
            await load.next()
    assert (load.final.lost, load.final.wrong) == (0, 0), load.final.notes
    assert len(await asyncio.to_thread(helm_test, target, RELEASE, OPERATOR_NAMESPACE)) == len(
        PASSED
    )
    pods = [
        pod
        for each in (OPERATOR_NAMESPACE, pool.namespace)
        for pod in api.list(f"/api/v1/namespaces/{each}/pods")
        if pod["status"]["phase"] == "Running"
    ]
    by_pod = {pod["metadata"]["name"]: owners(pod) for pod in pods}
    assert len(by_pod) >= 6, by_pod
    assert {pod: users for pod, users in by_pod.items() if users != {(USER, 0)}} == {}
    figure(
        f"restricted-v2: {len(by_pod)} pods as user {USER}, group 0, {load.final.sent} requests answered"
    )
