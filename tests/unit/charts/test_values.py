"""Every value: in the schema, in the README, with an effect; values of the chart of 0.1.0 keep theirs."""

import functools
import json
import operator
import re
import tempfile
from collections.abc import Iterator, Mapping
from pathlib import Path
from typing import Any

import pytest
import yaml

from tests.support.kube.target import Target
from tests.unit.charts.rendered import CHART, ROOT, Object, rejection, template

CHANGED_FILE = Path(__file__).with_name("changed.yaml")
CHANGED: Object = yaml.safe_load(CHANGED_FILE.read_text())
DEFAULTS: Object = yaml.safe_load((CHART / "values.yaml").read_text())
SCHEMA: Object = json.loads((CHART / "values.schema.json").read_text())
EARLIER = ROOT / "tests" / "integration" / "api" / "earlier" / "0.1.0"


def leaves(section: Object, path: str = "") -> Iterator[tuple[str, Any]]:
    """Yield the dotted path and the value of each leaf; a list or an empty map is one."""
    for name, value in section.items():
        if isinstance(value, dict) and value:
            yield from leaves(value, f"{path}{name}.")
        else:
            yield f"{path}{name}", value


LEAVES = dict(leaves(DEFAULTS))
ALIASES = {
    "defaultRuntimeImage": "registry.example/runtime:1",
    "defaultRuntimeImagePullPolicy": "Never",
}
ENABLING = {
    "platform": "Kubernetes", "image.digest": "", "runtimeImage.digest": "", "gateway.image.digest": "", "gateway.envoyImage.digest": "", "batches.image.digest": "", "batches.volume.existingClaim": "", "metrics.service.enabled": True,
    "rbac.create": True, "rbac.readPolicies": True, "rbac.people": True, "serviceAccount.create": True,
}  # fmt: skip
"""With these over the changed values, every value acts."""
CONTEXTS: Mapping[str, Mapping[str, Any]] = {
    "defaultRuntimeImage": {f"runtimeImage.{name}": "" for name in DEFAULTS["runtimeImage"]},
    "defaultRuntimeImagePullPolicy": {"runtimeImage.pullPolicy": ""},
    "rbac.readPolicies": {"poolDefaults": {}},
    "batches.store": {"batches.replicas": 1},
    "batches.volume.accessMode": {"batches.replicas": 1},
    "metrics.service.enabled": {"metrics.serviceMonitor.enabled": False},
}
"""What a value needs besides in order to act."""
OTHERS: Mapping[str, Mapping[str, Any]] = {
    "image.repository": {"image.repository": "another"},
    "runtimeImage.repository": {"runtimeImage.repository": "another"},
    "defaultRuntimeImage": {"defaultRuntimeImage": "registry.example/runtime:2"},
    "namespaces": {"namespaces": ["acme-c"]},
    "batches.image.repository": {"batches.image.repository": "another"},
    "batches.namespaces": {"batches.namespaces": ["another"]},
    "prometheus.url": {"prometheus.url": "https://another"},
    "batches.redis.urlSecret.name": {"batches.redis.urlSecret.name": "another"},
    "scope": {"scope": "Cluster", "namespaces": []},
}
"""What to compare with where the default alone is rejected in that context."""


def at(section: Object, path: str) -> Any:
    return functools.reduce(operator.getitem, path.split("."), section)


def with_leaves(section: Object, changes: Mapping[str, Any]) -> Object:
    """Return a copy of `section` with other leaves."""
    copy: Object = json.loads(json.dumps(section))
    for path, value in changes.items():
        *parents, name = path.split(".")
        functools.reduce(operator.getitem, parents, copy)[name] = value
    return copy


def rendered(values: Object) -> list[Object]:
    return _rendered(json.dumps(values))


@functools.cache
def _rendered(values: str) -> list[Object]:
    with tempfile.NamedTemporaryFile("w", suffix=".json") as file:
        file.write(values)
        file.flush()
        return template(CHART, "--values", file.name)


def test_the_changed_values_are_all_values_and_none_is_the_default() -> None:
    changed = with_leaves(CHANGED, ALIASES)
    assert [path for path, value in LEAVES.items() if at(changed, path) == value] == []


@pytest.mark.parametrize("leaf", LEAVES)
def test_a_value_has_an_effect(leaf: str) -> None:
    enabled = with_leaves(CHANGED, {**ENABLING, **CONTEXTS.get(leaf, {})})
    changed = at(with_leaves(CHANGED, ALIASES), leaf)
    other = OTHERS.get(leaf, {leaf: LEAVES[leaf]})
    assert rendered(with_leaves(enabled, {leaf: changed})) != rendered(with_leaves(enabled, other))


def test_the_readme_describes_every_value() -> None:
    rows = re.findall(
        r"^\| (\S+) \| \w+ \| .* \| (.+) \|$", (CHART / "README.md").read_text(), re.M
    )
    described = {path for path, description in rows if description.strip()}
    covered = {
        path for path in LEAVES if any(f"{path}.".startswith(f"{row}.") for row in described)
    }
    assert set(LEAVES) - covered == set()


def objects_of(node: Any, path: str = "") -> Iterator[tuple[str, Object]]:
    """Yield every schema of an object that has properties."""
    if isinstance(node, dict):
        if isinstance(node.get("properties"), dict) and node.get("type") == "object":
            yield path, node
        for name, child in node.items():
            yield from objects_of(child, f"{path}/{name}")


OPEN = {"/definitions/volume"}
"""A volume has one member more, the name of its source."""


def test_the_schema_rejects_unknown_names_everywhere() -> None:
    objects = dict(objects_of(SCHEMA))
    assert set(DEFAULTS) < set(objects[""]["properties"])
    open_objects = {
        path for path, node in objects.items() if node["additionalProperties"] is not False
    }
    assert open_objects == OPEN


@pytest.mark.parametrize(
    ("name", "remedy"),
    [
        ("replicaCount", "'replicas'"),
        ("image.name", "'registry', 'repository', 'tag', 'digest', 'pullPolicy'"),
        ("poolDefaults.batching.max", "'size', 'maxQueueDelayMilliseconds'"),
        ("metrics.prometheusRule.alerts.PenstockSlow.enabled", "'PenstockSlowStarts'"),
        ("tolerations[0].efect", "'key', 'operator', 'value', 'effect', 'tolerationSeconds'"),
    ],
)
def test_an_unknown_value_is_rejected_with_the_known_ones(name: str, remedy: str) -> None:
    said = rejection(name, "true")
    unknown = name.removesuffix(".enabled").rpartition(".")[2]
    assert re.search(rf"invalid propertyName '{unknown}'\n.*value must be one of .*{remedy}", said)


@pytest.mark.parametrize(
    ("values", "remedy"),
    [
        ({"defaultRuntimeImage": "x/z:1"}, "both set: keep one.* --set defaultRuntimeImage=null"),
        ({"serviceAccount.create": "false"}, "serviceAccount.name is empty: name an existing"),
        ({"commonLabels.app\\.kubernetes\\.io/name": "x"}, "set by the chart: remove it"),
        ({"podLabels.helm\\.sh/chart": "x"}, "label helm.sh/chart is set by the chart: remove"),
        (
            {"scope": "Namespaces", "namespaces": "{a}", "rbac.readPolicies": "false", "poolDefaults.scaling.minReplicas": "2"},
            "could not read the policy; set rbac.readPolicies=true, or remove poolDefaults",
        ),
    ],
    ids=lambda value: next(iter(value)) if isinstance(value, dict) else "",
)  # fmt: skip
def test_values_that_contradict_each_other_are_rejected_with_a_remedy(
    values: dict[str, str], remedy: str
) -> None:
    (first, value), *rest = values.items()
    assert re.search(remedy, rejection(first, value, **dict(rest)))


def test_values_of_the_first_chart_give_the_same_operator() -> None:
    values = EARLIER / "values.yaml"
    before = template(EARLIER / "penstock-0.1.0.tgz", "--values", values)
    after = template(CHART, "--values", values, "--skip-tests")
    assert {identity(manifest) for manifest in before} == {identity(manifest) for manifest in after}
    kept = {"Deployment", "Role", "RoleBinding", "ServiceAccount", "NetworkPolicy", "ServiceMonitor", "PodMonitor"}  # fmt: skip
    specs = {identity(manifest): manifest for manifest in after}
    for manifest in before:
        if manifest["kind"] in kept:
            assert specs[identity(manifest)] == with_pools_of_variants(manifest)


def with_pools_of_variants(manifest: Object) -> Object:
    """Return an earlier manifest with the rights that pools with variants have needed since."""
    earlier = {"apiGroups": ["penstock.dev"], "resources": ["inferencepools"], "verbs": ["get", "list", "watch"]}  # fmt: skip
    writes = {**earlier, "verbs": [*earlier["verbs"], "create", "patch", "delete"]}
    if "rules" not in manifest:
        return manifest
    rules = [writes if rule == earlier else rule for rule in manifest["rules"]]
    return {**manifest, "rules": rules}


def test_the_values_of_the_first_chart_are_all_of_its_values() -> None:
    earlier = yaml.safe_load((EARLIER / "values.yaml").read_text())
    defaults = yaml.safe_load(Target.from_env().helm("show", "values", EARLIER / "penstock-0.1.0.tgz"))  # fmt: skip
    given = {path for path, _ in leaves(earlier)}
    prefixes = {".".join(path.split(".")[:depth]) for path in given for depth in range(1, 9)}
    assert {path for path, _ in leaves(defaults)} - prefixes == set()


def identity(manifest: Object) -> tuple[str, str, str]:
    meta = manifest["metadata"]
    return manifest["kind"], meta.get("namespace", ""), meta["name"]
