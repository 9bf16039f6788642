"""The pinned pod template of a pool: it stays in force until the inputs that it was rendered from change.

- inputs unchanged: the stored template, whatever this operator version renders
- inputs changed (a template edit, or `penstock.dev/restartedAt`): the template that this operator renders
- inputs changed back: the template that is still stored for them, so that undoing an edit undoes all of it
- outside the bounds: no rollout, running pods stay
- revision deleted: restored from the workload, which still has the template

So an operator upgrade restarts no pod (docs/design/design.md#template-and-live-fields).
"""

from collections.abc import Sequence
from dataclasses import dataclass, replace

from penstock_api import names
from penstock_operator.decide.config import DecideConfig
from penstock_operator.decide.manifests.diff import digest
from penstock_operator.decide.manifests.metadata import Manifest
from penstock_operator.decide.manifests.pod_template.bounds import violations
from penstock_operator.decide.manifests.pod_template.pod import pod_template
from penstock_operator.decide.manifests.revision import (
    inputs_of,
    labelled,
    number_of,
    revision,
    revision_name,
    template_of,
)
from penstock_operator.decide.manifests.workload import own_workload, pods_in_replica, template_in
from penstock_operator.observed import ChildObject, PolicyObject, PoolObject, PoolView

NO_GROUPS = (
    "spec.parallelism.nodes is above 1, but this installation creates no LeaderWorkerSets: install their controller"
    " (https://lws.sigs.k8s.io), and set leaderWorkerSets.enabled of the chart"
)


@dataclass(frozen=True, slots=True)
class Pinned:
    """The template in force, and the reasons where it differs from the spec."""

    template: Manifest | None
    """None: there is none yet, and the bounds do not allow the requested one."""
    inputs: str
    """Hash of the inputs of `template`."""
    revision: Manifest | None
    """The ControllerRevision that stores it; None without a template."""
    adopted: bool = False
    """Whether this pass replaces the template that was in force before."""
    newer_available: bool = False
    """Whether this operator version renders the same inputs differently."""
    violations: tuple[str, ...] = ()
    """Bounds that the requested template violates, so that it is not rolled out."""
    may_start_pods: bool = True
    """Whether new pods of `template` are within the bounds."""


def template_inputs(pool: PoolObject) -> str:
    """Return the hash of all inputs of a template except the default image."""
    fields = {
        "model",
        "runtime",
        "generation",
        "parallelism",
        "accelerator",
        "drain",
        "template",
        "tls",
        "api_keys",
    }
    spec = pool.spec.model_dump(mode="json", by_alias=True, exclude_none=True, include=fields)
    restarted = pool.annotations.get(names.ANNOTATION_RESTARTED_AT, "")
    return digest([{key: value for key, value in spec.items() if value}, restarted])


def pin(view: PoolView, policies: Sequence[PolicyObject], config: DecideConfig) -> Pinned:
    """Return the template in force for a pool; `policies` are those that select it."""
    pool = view.pool
    inputs, rendered = template_inputs(pool), labelled(pool, pod_template(pool, config))
    before = _in_force(view, inputs, rendered)
    if before is not None and before.inputs == inputs:
        violated = _violations(before.template or {}, pool, policies, config)
        newer = revision_name(before.template or {}) != revision_name(rendered)
        return replace(
            before, newer_available=newer, violations=violated, may_start_pods=not violated
        )
    chosen = (_stored(view, inputs) if before is not None else None) or rendered
    violated = _violations(chosen, pool, policies, config)
    if not violated:
        stored_in = revision(pool, chosen, inputs, _number(view, chosen))
        moved = before is not None and revision_name(before.template or {}) != revision_name(chosen)
        newer = revision_name(chosen) != revision_name(rendered)
        return Pinned(chosen, inputs, stored_in, adopted=moved, newer_available=newer)
    if before is None:
        return Pinned(None, inputs, None, violations=violated, may_start_pods=False)
    allowed = not _violations(before.template or {}, pool, policies, config)
    return replace(before, violations=violated, may_start_pods=allowed)


def _violations(
    template: Manifest, pool: PoolObject, policies: Sequence[PolicyObject], config: DecideConfig
) -> tuple[str, ...]:
    """Return a sentence for every reason for which no pod of `template` may start."""
    served = config.groups or pods_in_replica(template) == 1
    return (*violations(template, pool, policies), *(() if served else (NO_GROUPS,)))


def _stored(view: PoolView, inputs: str) -> Manifest | None:
    """Return the template that was rendered from these inputs before, if it is still stored."""
    revisions = view.revisions
    matches = [item for item in revisions if not item.deleting and inputs_of(item) == inputs]
    if matches:
        return template_of(max(matches, key=number_of))
    deployed = own_workload(view)
    return template_in(deployed) if deployed is not None and inputs_of(deployed) == inputs else None


def _latest(view: PoolView) -> ChildObject | None:
    usable = [revision for revision in view.revisions if not revision.deleting]
    return max(usable, key=number_of, default=None)


def _in_force(view: PoolView, inputs: str, rendered: Manifest) -> Pinned | None:
    """Return the template in force before this pass: from the latest revision, else from the workload."""
    latest = _latest(view)
    if latest is not None:
        template, rendered_from = template_of(latest), inputs_of(latest) or ""
        stored_in = revision(view.pool, template, rendered_from, number_of(latest))
        return Pinned(template, rendered_from, stored_in)
    deployed = own_workload(view)
    if deployed is None:
        return None
    running = template_in(deployed)
    if revision_name(running) in {None, revision_name(rendered)}:
        return None
    rendered_from = inputs_of(deployed) or inputs
    return Pinned(running, rendered_from, revision(view.pool, running, rendered_from, 1))


def _number(view: PoolView, rendered: Manifest) -> int:
    """Return the number that makes `rendered` the latest revision; a template that returns gets a new number."""
    latest = _latest(view)
    if latest is None:
        return 1
    same = latest.name == revision_name(rendered)
    return number_of(latest) + int(not same)
