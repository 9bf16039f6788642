"""Pinned templates: edits that restart pods, and events that must not."""

from dataclasses import replace
from typing import Any

import pytest
import yaml

from penstock_api import names
from penstock_api.types.pool import PoolSpec
from penstock_operator.decide.config import DecideConfig
from penstock_operator.decide.manifests.pinned_template import template_inputs
from penstock_operator.decide.manifests.pod_template.bounds import full_reference
from tests.unit.api.crds import ROOT
from tests.unit.operator.decide.world import (
    World,
    known,
    message,
    pod,
    policy,
    pool,
    reason,
    settled,
    written,
)

EARLIER = ROOT / "tests/integration/api/earlier"
NEWER = DecideConfig(default_runtime_image="registry.example/penstock-runtime:2")


def image(world: World) -> str:
    return str(world.template["spec"]["containers"][0]["image"])


def test_an_operator_upgrade_restarts_no_pod_and_reports_the_newer_template() -> None:
    world = settled()
    world.config = NEWER
    plan = world.run()
    assert plan.writes == ()
    assert reason(plan, "UpToDate") == "False/NewTemplateAvailable"
    assert names.ANNOTATION_RESTARTED_AT in message(plan, "UpToDate")


def test_drift_repair_re_applies_the_stored_template_not_a_newer_one() -> None:
    world = settled()
    world.config = NEWER
    del world.children["Deployment", "chat-penstock"]
    world.settle()
    assert image(world) == "registry.example/penstock-runtime:1"


def test_an_image_changed_by_hand_is_reverted_to_the_pinned_one() -> None:
    world = settled()
    containers = [
        {**container, "image": "evil:1"} for container in world.template["spec"]["containers"]
    ]
    world.edit("Deployment", "chat-penstock", "spec.template.spec.containers", containers)
    world.settle()
    assert image(world) == "registry.example/penstock-runtime:1"


def test_a_template_edit_adopts_the_newer_template() -> None:
    world = settled()
    before = world.revision
    world.config = NEWER
    world.edit_spec(template={"labels": {"team": "a"}})
    plan = world.settle()
    assert image(world) == "registry.example/penstock-runtime:2"
    assert world.revision != before
    assert ("Create", "ControllerRevision", world.revision) in written(plan)
    assert [event.reason for event in plan.events] == ["TemplateAdopted"]
    assert reason(world.run(), "UpToDate") == "True/LatestTemplate"


def test_restarted_at_restarts_the_pods_with_the_newer_template() -> None:
    world = settled()
    world.config = NEWER
    world.annotate(names.ANNOTATION_RESTARTED_AT, "2026-01-01T00:00:00Z")
    world.settle()
    assert image(world) == "registry.example/penstock-runtime:2"
    annotations = world.template["metadata"]["annotations"]
    assert annotations == {names.ANNOTATION_RESTARTED_AT: "2026-01-01T00:00:00Z"}
    assert world.run().writes == ()


@pytest.mark.parametrize(
    "live",
    [
        {"replicas": 3},
        {"batching": {"maxQueueDepth": 7, "discipline": "FirstInFirstOut"}},
        {"scaling": {"maxReplicas": 3, "mode": "Auto"}},
        {"objectives": [{"metric": "RequestLatency", "milliseconds": 100}]},
        {"rollout": {"strategy": "Replace"}},
        {"runtime": {}},
        {"template": {}},
    ],
)
def test_an_edit_of_a_live_field_never_changes_the_template(live: Any) -> None:
    world = settled()
    before = world.template
    world.edit_spec(**live)
    world.settle()
    assert world.template == before
    assert len(world.revisions) == 1


@pytest.mark.parametrize(
    ("version", "name", "inputs"),
    [
        ("first", "module", "cd72aea214"),
        ("first", "claim", "63b8f8dc62"),
        ("0.1.0", "module", "57aa9aa649"),
        ("0.1.0", "claim", "4d21868985"),
        ("0.1.0", "hugging-face", "79a43eaf3c"),
        ("0.1.0", "image", "eac13f06b1"),
        ("0.1.0", "s3", "1314aeba8a"),
        ("0.1.0", "hugging-face-ephemeral", "a8e69ca1b0"),
        ("0.1.0", "s3-claimed", "4d827b7f2f"),
        ("0.1.0", "without-a-mode", "7759dda823"),
    ],
)
def test_a_pool_of_an_earlier_version_has_the_inputs_of_its_pinned_template(
    version: str, name: str, inputs: str
) -> None:
    """These hashes are in stored revisions: another one would roll every pool at the upgrade."""
    stored = yaml.safe_load_all((EARLIER / version / "objects.yaml").read_text())
    (spec,) = [item["spec"] for item in stored if item["metadata"]["name"] == name]
    assert template_inputs(replace(pool(), spec=PoolSpec.model_validate(spec))) == inputs


@pytest.mark.parametrize(
    "edit",
    [
        {"runtime": {"image": "registry.example/other:1"}},
        {"runtime": {"imagePullPolicy": "Always"}},
        {"accelerator": {"resourceName": "nvidia.com/gpu", "count": 2}},
        {"drain": {"deadlineSeconds": 30}},
        {"template": {"nodeSelector": {"zone": "a"}}},
        {"template": {"runtimeClassName": "kata"}},
        {"template": {"schedulerName": "volcano"}},
        {"template": {"securityContext": {"runAsUser": 1000}}},
        {"template": {"container": {"env": [{"name": "A", "value": "1"}]}}},
        {"model": {"name": "served", "source": {"type": "Module", "module": {"factory": "m:f"}}}},
    ],
)
def test_an_edit_of_a_template_field_restarts_the_pods(edit: dict[str, Any]) -> None:
    world = settled()
    before = world.revision
    world.edit_spec(**edit)
    world.settle()
    assert world.revision != before


def test_a_policy_never_changes_the_template() -> None:
    world = settled()
    before = world.template
    defaults = {"scaling": {"maxReplicas": 3}, "batching": {"maxQueueDepth": 7}}
    world.policies = (policy("p", defaults=defaults, bounds={"replicas": {"max": 2}}),)
    world.settle()
    assert world.template == before


def test_returning_to_an_earlier_template_uses_its_revision_again() -> None:
    world = settled(pool=pool(template={"labels": {"v": "1"}}))
    first = world.revision
    world.edit_spec(template={"labels": {"v": "2"}})
    world.settle()
    second = world.revision
    world.edit_spec(template={"labels": {"v": "1"}})
    plan = world.settle()
    assert world.revision == first != second
    assert ("Delete", "ControllerRevision", first) in written(plan)
    assert ("Create", "ControllerRevision", first) in written(world.settle())
    numbers = {revision.name: revision.manifest["revision"] for revision in world.revisions}
    assert numbers == {first: 3, second: 2}
    assert world.run().writes == ()


def test_a_deleted_revision_is_restored_from_the_deployment_without_a_restart() -> None:
    world = settled()
    before = world.template
    world.revisions.clear()
    world.config = NEWER
    plan = world.settle()
    assert ("Create", "ControllerRevision", world.revision) in written(plan)
    assert world.template == before
    assert world.run().writes == ()


def test_a_revision_that_the_cache_does_not_contain_yet_is_created_identically() -> None:
    world = settled()
    (kept,) = world.revisions
    world.revisions.clear()
    plan = world.run()
    assert written(plan) == [("Create", "ControllerRevision", kept.name)]
    assert plan.writes[0].manifest == kept.manifest


def test_old_revisions_are_pruned_except_those_that_a_pod_runs() -> None:
    world = settled()
    oldest = world.revision
    for number in range(12):
        world.edit_spec(template={"labels": {"v": str(number)}})
        world.settle()
    assert len(world.revisions) == 1 + 5 + 1  # the current, the history, the one of the pods
    assert oldest in {revision.name for revision in world.revisions}
    world.pods = ()
    world.settle()
    assert len(world.revisions) == 1 + 5
    assert oldest not in {revision.name for revision in world.revisions}
    assert world.revision in {revision.name for revision in world.revisions}


def test_a_revision_name_fits_a_label_even_for_the_longest_pool_name() -> None:
    world = World(pool=pool(name="p" * 52))
    world.settle()
    assert len(world.revision) == 63


ONLY_OURS = policy("images", bounds={"template": {"allowedImages": ["registry.example/"]}})


def test_a_template_outside_the_bounds_starts_no_rollout_and_running_pods_stay() -> None:
    world = settled(policies=(ONLY_OURS,))
    before = world.template
    world.edit_spec(runtime={"image": "elsewhere.example/x:1"})
    plan = world.settle()
    assert plan.writes == ()
    assert world.template == before
    assert reason(plan, "PolicyApplied") == "False/TemplateNotAllowed"
    assert reason(plan, "Ready") == "True/AllReplicasReady"
    text = message(plan, "PolicyApplied")
    assert "spec.runtime.image 'elsewhere.example/x:1'" in text
    assert "registry.example/" in text


def test_a_pool_kept_on_its_allowed_template_still_scales() -> None:
    world = settled(policies=(ONLY_OURS,))
    world.edit_spec(runtime={"image": "elsewhere.example/x:1"}, replicas=3)
    world.settle()
    assert world.deployment["spec"]["replicas"] == 3


def test_a_policy_that_forbids_the_running_template_blocks_new_pods_only() -> None:
    world = settled(pool=pool(replicas=2))
    world.policies = (policy("none", bounds={"template": {"allowedImages": []}}),)
    world.edit_spec(replicas=5)
    world.settle()
    assert world.deployment["spec"]["replicas"] == 2
    world.edit_spec(replicas=1)
    world.settle()
    assert world.deployment["spec"]["replicas"] == 1


def test_a_new_pool_outside_the_bounds_starts_no_pod_until_an_edit() -> None:
    world = World(policies=(ONLY_OURS,), pool=pool(runtime={"image": "elsewhere.example/x:1"}))
    plan = world.settle()
    assert not {"Deployment", "ControllerRevision"} & {kind for _, kind, _ in written(plan)}
    assert reason(plan, "Ready") == "False/TemplateNotAllowed"
    world.edit_spec(runtime={"image": "registry.example/x:1"})
    world.settle()
    assert image(world) == "registry.example/x:1"


def test_a_deleted_deployment_with_a_forbidden_template_is_not_created_again() -> None:
    world = settled()
    world.policies = (policy("none", bounds={"template": {"allowedImages": []}}),)
    del world.children["Deployment", "chat-penstock"]
    assert written(world.run()) == []


@pytest.mark.parametrize(
    ("bounds", "template", "allowed"),
    [
        ({}, {"serviceAccountName": "other", "priorityClassName": "high"}, True),
        ({"serviceAccountNames": []}, {}, True),  # the pool's own is always allowed
        ({"serviceAccountNames": []}, {"serviceAccountName": "other"}, False),
        ({"serviceAccountNames": ["other"]}, {"serviceAccountName": "other"}, True),
        ({"priorityClassNames": []}, {}, True),
        ({"priorityClassNames": []}, {"priorityClassName": "high"}, False),
        ({"priorityClassNames": ["high"]}, {"priorityClassName": "high"}, True),
        ({}, {"runtimeClassName": "kata", "schedulerName": "volcano"}, True),
        ({"runtimeClassNames": [], "schedulerNames": []}, {}, True),
        ({"runtimeClassNames": []}, {"runtimeClassName": "kata"}, False),
        ({"runtimeClassNames": ["kata"]}, {"runtimeClassName": "kata"}, True),
        ({"schedulerNames": ["yunikorn"]}, {"schedulerName": "volcano"}, False),
        ({"schedulerNames": []}, {"schedulerName": "default-scheduler"}, True),
    ],
)
def test_names_of_other_objects_are_bounded_where_a_list_is_given(
    bounds: dict[str, Any], template: dict[str, Any], allowed: bool
) -> None:
    world = World(
        policies=(policy("p", bounds={"template": bounds}),), pool=pool(template=template)
    )
    created = ("Create", "Deployment", "chat-penstock") in written(world.run())
    assert created is allowed


def test_several_policies_intersect() -> None:
    first = policy("a", bounds={"template": {"priorityClassNames": ["low", "high"]}})
    second = policy("b", bounds={"template": {"priorityClassNames": ["low"]}})
    world = World(policies=(first, second), pool=pool(template={"priorityClassName": "high"}))
    plan = world.run()
    assert reason(plan, "PolicyApplied") == "False/TemplateNotAllowed"
    assert "policy b allows (low)" in message(plan, "PolicyApplied")


@pytest.mark.parametrize(
    ("image_", "full"),
    [
        ("nginx", "docker.io/library/nginx"),
        ("team/x:1", "docker.io/team/x:1"),
        ("localhost/x:1", "localhost/x:1"),
        ("host:5000/x", "host:5000/x"),
        ("registry.example/a/b@sha256:1", "registry.example/a/b@sha256:1"),
    ],
)
def test_bounds_apply_to_the_full_image_reference(image_: str, full: str) -> None:
    assert full_reference(image_) == full


def test_status_shows_the_image_by_digest_once_a_pod_of_the_revision_runs() -> None:
    world = settled()
    assert known(world.run().status.template).image == "registry.example/penstock-runtime:1"
    digest = "registry.example/penstock-runtime@sha256:aa"
    old = pod("old", image="other@sha256:bb", revision="chat-older")
    world.pods = (old, replace(world.pods[0], image=digest))
    status = known(world.run().status.template)
    assert (status.image, status.revision) == (digest, world.revision)
