"""Convergence: after any sequence of events a few passes leave no action, and no pod restarts without cause."""

from collections.abc import Callable
from dataclasses import replace

from hypothesis import given, settings
from hypothesis import strategies as st

from penstock_api.types.status import PoolStatus
from penstock_operator.decide.config import DecideConfig
from penstock_operator.decide.manifests.pinned_template import template_inputs
from tests.unit.operator.decide.world import CONFIG, World, known, pod, policy, pool, settled

DEPLOYMENT = ("Deployment", "chat-penstock")
NEWER = DecideConfig(default_runtime_image="registry.example/penstock-runtime:2")
TIED = (
    policy("a", defaults={"batching": {"maxQueueDepth": 10}}),
    policy("b", defaults={"batching": {"maxQueueDepth": 20}}),
)
NO_IMAGES = policy("none", bounds={"template": {"allowedImages": []}})
BOUND = policy("bound", bounds={"replicas": {"max": 2}, "batchSize": {"max": 8}})

ACTIONS: dict[str, Callable[[World], object]] = {
    "scale": lambda world: world.edit_spec(replicas=3),
    "scale to none": lambda world: world.edit_spec(replicas=0),
    "auto": lambda world: world.edit_spec(scaling={"mode": "Auto", "minReplicas": 2}),
    "hold": lambda world: world.edit_spec(scaling={"mode": "Hold"}),
    "fixed": lambda world: world.edit_spec(batching={"mode": "Fixed", "size": {"max": 12}}),
    "template": lambda world: world.edit_spec(template={"labels": {"v": "2"}}),
    "template back": lambda world: world.edit_spec(template={"labels": {"v": "1"}}),
    "policies": lambda world: setattr(world, "policies", (BOUND,)),
    "tied policies": lambda world: setattr(world, "policies", TIED),
    "a policy against all images": lambda world: setattr(world, "policies", (NO_IMAGES,)),
    "no policies": lambda world: setattr(world, "policies", ()),
    "operator restarted": lambda world: world.states.clear(),
    "operator upgraded": lambda world: setattr(world, "config", NEWER),
    "operator rolled back": lambda world: setattr(world, "config", CONFIG),
    "another leader": lambda world: setattr(
        world, "lease_transitions", world.lease_transitions + 1
    ),
    "children deleted": lambda world: world.children.clear(),
    "deployment deleted": lambda world: world.children.pop(DEPLOYMENT, None),
    "revisions deleted": lambda world: world.revisions.clear(),
    "status lost": lambda world: setattr(world, "pool", replace(world.pool, status=PoolStatus())),
    "pods lost": lambda world: setattr(world, "pods", ()),
    "a pass": lambda world: world.settle(),
}


def with_pods(world: World) -> None:
    """Run the Deployment's replicas as pods."""
    if DEPLOYMENT not in world.children:
        world.pods = ()
        return
    wanted = world.deployment["spec"]["replicas"]
    world.pods = tuple(
        pod(f"chat-{number}", revision=world.revision) for number in range(1, wanted + 1)
    )


@settings(max_examples=50)
@given(st.lists(st.sampled_from(sorted(ACTIONS)), max_size=12))
def test_a_pool_converges_after_any_sequence_of_events(actions: list[str]) -> None:
    world = settled(pool=pool(template={"labels": {"v": "1"}}))
    for action in actions:
        ACTIONS[action](world)
    for _ in range(4):
        world.settle()
        with_pods(world)
    plan = world.run()
    assert (plan.writes, plan.pushes, plan.events) == ((), (), ())
    assert plan.status == world.pool.status


QUIET = sorted(
    set(ACTIONS) - {"template", "template back", "deployment deleted", "children deleted"}
)


@settings(max_examples=50)
@given(st.lists(st.sampled_from(QUIET), max_size=12))
def test_only_a_change_of_the_template_inputs_restarts_pods(actions: list[str]) -> None:
    world = settled()
    inputs, before = template_inputs(world.pool), world.template
    for action in actions:
        ACTIONS[action](world)
        world.settle()
        assert world.template == before
    assert template_inputs(world.pool) == inputs


@settings(max_examples=50)
@given(st.lists(st.sampled_from(sorted(ACTIONS)), max_size=12))
def test_a_generation_never_decreases_while_a_pod_or_the_status_has_it(
    actions: list[str],
) -> None:
    world = settled()
    last = known(world.run().limits)
    for action in actions:
        if action == "status lost":
            continue
        ACTIONS[action](world)
        limits = known(world.settle().limits)
        assert limits.generation >= last.generation
        assert limits.limits() == last.limits() or limits.generation > last.generation
        last = limits
