"""Expected connections under the chart's NetworkPolicies, evaluated by cyclonus.

The operator's policy is the rendered one; the pools' policy is what the operator creates with the chart's settings.
"""

import json
import re
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import yaml

from penstock_api import names
from penstock_api.types.pool import PoolSpec
from penstock_api.types.status import PoolStatus
from penstock_operator.config import OperatorConfig
from penstock_operator.decide.manifests.metadata import selector
from penstock_operator.decide.manifests.network_policy import network_policy
from penstock_operator.observed import PoolObject

Object = dict[str, Any]
Labels = Mapping[str, str]
NAMESPACE_NAME = "kubernetes.io/metadata.name"
POOL = PoolObject.of(
    {"uid": "7b1f", "namespace": "team-a", "name": "chat", "resourceVersion": "1", "creationTimestamp": "2026-01-01T00:00:00Z"},
    PoolSpec.model_validate({"model": {"source": {"type": "Module", "module": {"factory": "a:b"}}}}),
    PoolStatus(),
)  # fmt: skip
VERDICT = re.compile(r"IS ALLOWED\?\s*\|\s*(TRUE|FALSE)")


class NoVerdict(RuntimeError):
    """cyclonus did not return a verdict for every check; the message is its output."""


@dataclass(frozen=True, slots=True)
class End:
    """A pod, or an address outside the cluster if the namespace is empty."""

    title: str
    namespace: str = ""
    labels: Labels | None = None

    def peer(self, address: str) -> Object:
        """Return the cyclonus input."""
        if not self.namespace:
            return {"IP": "203.0.113.9"}
        inside = {
            "Namespace": self.namespace,
            "NamespaceLabels": {NAMESPACE_NAME: self.namespace},
            "PodLabels": dict(self.labels or {}),
        }
        return {"IP": address, "Internal": inside}


@dataclass(frozen=True, slots=True)
class PolicyCheck:
    """A connection from `source` to `target`'s port, and whether the policies should allow it."""

    source: End
    target: End
    port: tuple[int, str]
    wanted: bool

    def __str__(self) -> str:
        verb = "reaches" if self.wanted else "does not reach"
        return f"{self.source.title} {verb} {self.target.title}:{self.port[0]}"

    def traffic(self) -> Object:
        """Return the cyclonus input."""
        number, name = self.port
        return {
            "Source": self.source.peer("10.0.0.1"), "Destination": self.target.peer("10.0.0.2"),
            "Protocol": "TCP", "ResolvedPort": number, "ResolvedPortName": name,
        }  # fmt: skip


CLIENTS = (names.CLIENT_PORT, names.CLIENT_PORT_NAME)
CONTROL = (names.CLUSTER_PORT, names.CLUSTER_PORT_NAME)
OPERATORS = (8080, "http")
PROMETHEUS = End("Prometheus", "monitoring", {"app": "prometheus"})
GATEWAY = End("a named client", "edge", {"app": "gateway"})
PEERS = {
    "poolNetworkPolicy.scrapers": [PROMETHEUS],
    "poolNetworkPolicy.clients": [GATEWAY],
    "networkPolicy.from": [PROMETHEUS],
}
"""Peers that the chart is rendered with, by value."""


def settings() -> list[str]:
    """Return `PEERS` as arguments of helm's --set-json."""
    return [f"{name}={json.dumps([_as_peer(end) for end in ends])}" for name, ends in PEERS.items()]


def _as_peer(end: End) -> Object:
    return {
        "namespaceSelector": {"matchLabels": {NAMESPACE_NAME: end.namespace}},
        "podSelector": {"matchLabels": dict(end.labels or {})},
    }


def policies(rendered: Sequence[Object]) -> list[Object]:
    """Return the NetworkPolicies of the installation: the operator's, and one pool's."""
    peers = OperatorConfig.from_env(_environment(rendered)).pool_network_policy
    if peers is None:
        raise ValueError("the chart was rendered without poolNetworkPolicy.enabled")
    return [
        *(manifest for manifest in rendered if manifest["kind"] == "NetworkPolicy"),
        network_policy(POOL, peers),
    ]


def checks(rendered: Sequence[Object]) -> Iterator[PolicyCheck]:
    """Yield the connections that should be allowed, and those that should be denied."""
    meta = _operators_pod(rendered)["metadata"]
    home, labels = _deployment(rendered)["metadata"]["namespace"], meta["labels"]
    operator = End("the operator", home, labels)
    pool = End("a pool's pod", POOL.namespace, selector(POOL))
    outside, stranger = End("an external client"), End("a stranger", "team-b", {"app": "web"})
    sibling = End("a pod of the same pool", POOL.namespace, selector(POOL))
    lookalike = End("a pod labelled as the operator elsewhere", "team-b", labels)
    neighbor = End("another pod in the operator's namespace", home, {"app": "web"})
    rejected = (outside, stranger, sibling, lookalike, neighbor)
    for source in (operator, PROMETHEUS):
        yield PolicyCheck(source, pool, CONTROL, wanted=True)
    for source in (*rejected, GATEWAY):
        yield PolicyCheck(source, pool, CONTROL, wanted=False)
    yield PolicyCheck(GATEWAY, pool, CLIENTS, wanted=True)
    for source in (*rejected, PROMETHEUS):
        yield PolicyCheck(source, pool, CLIENTS, wanted=False)
    yield PolicyCheck(PROMETHEUS, operator, OPERATORS, wanted=True)
    for source in (outside, stranger, neighbor, pool, GATEWAY):
        yield PolicyCheck(source, operator, OPERATORS, wanted=False)


def verdicts(text: str, expected: int) -> list[bool]:
    """Return cyclonus' verdicts, in the order of the checks.

    Raises:
        NoVerdict: the number of verdicts differs from `expected`.
    """
    results = [word == "TRUE" for word in VERDICT.findall(text)]
    if len(results) != expected:
        raise NoVerdict(f"{len(results)} of {expected} verdicts: {text[-2000:]}")
    return results


def write(rendered: Sequence[Object], folder: Path) -> tuple[Path, Path, list[PolicyCheck]]:
    """Write the policies and the checks as cyclonus input; return both paths, and the checks."""
    expected = list(checks(rendered))
    policy_folder, traffic = folder / "network-policies", folder / "traffic.json"
    policy_folder.mkdir(parents=True, exist_ok=True)
    for number, policy in enumerate(policies(rendered)):
        (policy_folder / f"{number}.yaml").write_text(yaml.safe_dump(policy))
    traffic.write_text(json.dumps([check.traffic() for check in expected]))
    return policy_folder, traffic, expected


def _deployment(rendered: Sequence[Object]) -> Object:
    (deployment,) = [manifest for manifest in rendered if manifest["kind"] == "Deployment"]
    return deployment


def _operators_pod(rendered: Sequence[Object]) -> Object:
    template: Object = _deployment(rendered)["spec"]["template"]
    return template


def _environment(rendered: Sequence[Object]) -> dict[str, str]:
    (container,) = _operators_pod(rendered)["spec"]["containers"]
    return {
        variable["name"]: variable.get("value", "given-by-the-pod") for variable in container["env"]
    }
