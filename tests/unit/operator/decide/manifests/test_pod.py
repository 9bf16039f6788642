"""The pod around the runtime container: placement, user and group IDs, and claims of devices."""

from typing import Any

import pytest

from penstock_api.types.pod_template.security import IdSource
from penstock_operator.decide.config import DecideConfig
from tests.integration.api.full_template import AFFINITY
from tests.unit.operator.decide.world import CONFIG, World, pool

PLATFORM = DecideConfig(CONFIG.default_runtime_image, pool_ids=IdSource.PLATFORM)
FIXED = {"runAsUser": 65532, "runAsGroup": 65532, "fsGroup": 65532}


def pod_of(template: dict[str, Any], config: DecideConfig = CONFIG, **spec: Any) -> dict[str, Any]:
    world = World(pool=pool(template=template, **spec), config=config)
    world.settle()
    return dict(world.template["spec"])


def ids(template: dict[str, Any], config: DecideConfig = CONFIG) -> dict[str, Any]:
    context = pod_of(template, config)["securityContext"]
    assert context["runAsNonRoot"] is True
    assert context["seccompProfile"] == {"type": "RuntimeDefault"}
    others = {"runAsNonRoot", "seccompProfile", "fsGroupChangePolicy"}
    return {key: value for key, value in context.items() if key not in others}


def test_placement_is_copied_to_the_pod() -> None:
    own = {
        "nodeSelector": {"zone": "a"},
        "tolerations": [{"key": "gpu", "operator": "Exists", "effect": "NoSchedule"}],
        "affinity": AFFINITY,
        "schedulerName": "volcano",
        "runtimeClassName": "nvidia",
        "priorityClassName": "high",
        "imagePullSecrets": [{"name": "regcred"}],
        "resourceClaims": [{"name": "gpu", "resourceClaimTemplateName": "whole-gpu"}],
    }
    pod = pod_of(own)
    assert {key: pod[key] for key in own} == own


def test_a_spread_without_a_selector_counts_the_pods_of_the_pool() -> None:
    spread = {"topologyKey": "zone", "whenUnsatisfiable": "ScheduleAnyway", "maxSkew": 1}
    chosen = {**spread, "topologyKey": "host", "labelSelector": {"matchLabels": {"team": "a"}}}
    pool_, team = pod_of({"topologySpreadConstraints": [spread, chosen]})[
        "topologySpreadConstraints"
    ]
    assert pool_["labelSelector"] == {"matchLabels": {"penstock.dev/pool-uid": "uid-chat"}}
    assert team == chosen


@pytest.mark.parametrize(
    ("config", "context", "expected"),
    [
        (CONFIG, {}, FIXED),
        (CONFIG, {"ids": "Platform"}, {}),
        (CONFIG, {"runAsUser": 1000}, {**FIXED, "runAsUser": 1000}),
        (CONFIG, {"supplementalGroups": [5]}, {**FIXED, "supplementalGroups": [5]}),
        (PLATFORM, {}, {}),
        (PLATFORM, {"fsGroup": 0}, {"fsGroup": 0}),
        (PLATFORM, {"ids": "Fixed"}, FIXED),
    ],
)
def test_ids_are_the_pools_then_those_of_the_shipped_image_or_none(
    config: DecideConfig, context: dict[str, Any], expected: dict[str, Any]
) -> None:
    assert ids({"securityContext": context}, config) == expected


def test_another_default_of_ids_rolls_no_pool() -> None:
    world = World()
    world.settle()
    before = world.template
    world.config = PLATFORM
    world.settle()
    assert world.template == before


def test_a_container_uses_the_claims_of_its_pod_and_one_thread_feeds_the_device() -> None:
    own = {
        "resourceClaims": [{"name": "gpu", "resourceClaimTemplateName": "whole-gpu"}],
        "container": {"resources": {"claims": [{"name": "gpu", "request": "card"}]}},
    }
    (container,) = pod_of(own, accelerator={"count": 0})["containers"]
    assert container["resources"] == {"claims": [{"name": "gpu", "request": "card"}]}
    threads = {entry["name"]: entry for entry in container["env"]}["OMP_NUM_THREADS"]
    assert threads["value"] == "1"
