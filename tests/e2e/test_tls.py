"""TLS with real pods: certificates that the kubelet mounts are served, verified by the operator and renewed live."""

import http.client
import json
import socket
import ssl
from collections.abc import Iterator
from pathlib import Path

import pytest

from penstock_api.certificates import CERTIFICATE_FILE, KEY_FILE
from tests.e2e.conftest import Figure, MakePool
from tests.support.kube import install
from tests.support.kube.api import Api, Object
from tests.support.kube.install import Images
from tests.support.kube.operator import InstalledOperator
from tests.support.kube.pods import restarts
from tests.support.kube.pools import PoolHandle, until
from tests.unit.operator.net.certificates import Authority

pytestmark = [pytest.mark.long, pytest.mark.own_cluster, pytest.mark.alone]

OWN = "operator-tls"
AUTHORITIES = "pool-authorities"
REQUEST = {
    "inputs": [{"name": "INPUT", "datatype": "FP32", "shape": [1, 8], "data": [[0.5] * 8]}],
}


def secret(namespace: str, name: str, folder: Path) -> Object:
    """Return the Secret of a certificate and its key."""
    files = (CERTIFICATE_FILE, KEY_FILE, "ca.crt")
    data = {file: (folder / file).read_text() for file in files if (folder / file).exists()}
    head = {"apiVersion": "v1", "kind": "Secret", "type": "kubernetes.io/tls"}
    return {**head, "metadata": {"name": name, "namespace": namespace}, "stringData": data}


@pytest.fixture(scope="module")
def authority(
    api: Api, operator: InstalledOperator, images: Images, tmp_path_factory: pytest.TempPathFactory
) -> Iterator[Authority]:
    """The CA by which the operator verifies pods, while it serves TLS itself; the installation is restored afterwards."""
    authority, home = Authority.make(), install.OPERATOR_NAMESPACE
    folder = tmp_path_factory.mktemp("operator")
    authority.issue(folder, f"penstock-operator.{home}.svc")
    known = {"apiVersion": "v1", "kind": "ConfigMap", "data": {"ca.crt": authority.pem()}}
    api.apply({**known, "metadata": {"name": AUTHORITIES, "namespace": home}})
    api.apply(secret(home, OWN, folder))
    operator.change(f"tls.secretName={OWN}", f"poolAuthorities.configMapName={AUTHORITIES}")
    yield authority
    assert not any(operator.restarts().values())
    install.install_operator(operator.target, images)
    api.delete(f"/api/v1/namespaces/{home}/configmaps/{AUTHORITIES}")
    api.delete(f"/api/v1/namespaces/{home}/secrets/{OWN}")


def served(pool: PoolHandle, trust: ssl.SSLContext) -> int:
    """Send a request through the Service under its DNS name; return the serial number of the server certificate."""
    host, port = pool.url().removeprefix("http://").split(":")
    name = f"{pool.name}.{pool.namespace}.svc"
    raw = socket.create_connection((host, int(port)), timeout=10)
    with trust.wrap_socket(raw, server_hostname=name) as secure:
        certificate = secure.getpeercert()
        connection = http.client.HTTPConnection(host)
        connection.sock = secure
        connection.request("POST", f"/v2/models/{pool.name}/infer", json.dumps(REQUEST))
        with connection.getresponse() as answer:
            assert answer.status == 200, answer.read()
            answer.read()
    assert certificate is not None
    return int(str(certificate["serialNumber"]), 16)


def test_a_pool_serves_a_verified_certificate_and_renews_it_without_a_restart(
    api: Api, authority: Authority, make_pool: MakePool, tmp_path: Path, figure: Figure
) -> None:
    pool = make_pool("secure", replicas=2, tls={"secretRef": {"name": "secure-tls"}})
    first = authority.issue(tmp_path / "first", f"secure.{pool.namespace}.svc")
    api.create(secret(pool.namespace, "secure-tls", tmp_path / "first"))
    pool.await_ready(2)
    pool.await_acknowledged()
    trust = ssl.create_default_context(cadata=authority.pem())
    assert served(pool, trust) == first
    with pytest.raises(ssl.SSLError):
        served(pool, ssl.create_default_context())
    assert rejects_plain_http(pool)

    names, generation = pool.pod_names(), pool.status()["batch"]["generation"]
    second = authority.issue(tmp_path / "second", f"secure.{pool.namespace}.svc")
    api.apply(secret(pool.namespace, "secure-tls", tmp_path / "second"))
    took = until(
        "both pods serve the renewed certificate",
        lambda: {served(pool, trust) for _ in range(8)} == {second},
        seconds=180,
        every=2,
    )
    figure(f"a renewed certificate is served by both pods {took:.0f} s after its Secret changed")
    pool.edit({"batching": {"mode": "Fixed", "size": {"max": 7}}})
    pool.await_acknowledged(generation)
    assert pool.pod_names() == names
    assert all(restarts(pod) == 0 for pod in pool.pods())


def test_a_pool_with_tls_enters_its_gateway_and_renews_its_certificate_there(
    api: Api, authority: Authority, make_pool: MakePool, tmp_path: Path, figure: Figure
) -> None:
    pool = make_pool(
        "behind", replicas=2, tls={"secretRef": {"name": "behind-tls"}}, routing={"mode": "Gateway"}
    )
    first = authority.issue(tmp_path / "first", f"behind.{pool.namespace}.svc")
    (tmp_path / "first" / "ca.crt").write_text(authority.pem())
    api.create(secret(pool.namespace, "behind-tls", tmp_path / "first"))
    pool.await_ready(2)
    pool.await_condition("Routed", "True", seconds=180)
    trust = ssl.create_default_context(cadata=authority.pem())
    assert served(pool, trust) == first
    assert rejects_plain_http(pool)
    second = authority.issue(tmp_path / "second", f"behind.{pool.namespace}.svc")
    (tmp_path / "second" / "ca.crt").write_text(authority.pem())
    api.apply(secret(pool.namespace, "behind-tls", tmp_path / "second"))
    took = until(
        "the gateway serves the renewed certificate",
        lambda: {served(pool, trust) for _ in range(8)} == {second},
        seconds=180,
        every=2,
    )
    figure(f"gateway: a renewed certificate is served {took:.0f} s after its Secret changed")


def rejects_plain_http(pool: PoolHandle) -> bool:
    """Return whether the client port rejects plain HTTP."""
    connection = http.client.HTTPConnection(pool.url().removeprefix("http://"), timeout=10)
    try:
        connection.request("GET", "/v2/health/live")
        return connection.getresponse().status >= 400
    except (OSError, http.client.HTTPException):
        return True
    finally:
        connection.close()


def test_a_pod_with_an_untrusted_certificate_is_rejected_and_keeps_serving(
    api: Api, authority: Authority, make_pool: MakePool, tmp_path: Path
) -> None:
    stranger = Authority.make("stranger")
    pool = make_pool("forged", tls={"secretRef": {"name": "forged-tls"}})
    serial = stranger.issue(tmp_path / "forged", f"forged.{pool.namespace}.svc")
    api.create(secret(pool.namespace, "forged-tls", tmp_path / "forged"))
    pool.await_condition("LimitsApplied", "False", "PodsUnreachable", seconds=90)
    assert "certificate" in pool.condition("LimitsApplied")["message"]
    assert served(pool, ssl.create_default_context(cadata=stranger.pem())) == serial
