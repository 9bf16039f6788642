"""Which pod template is in force: pinned until the pool's author changes what it was rendered from.

- inputs as before: the stored template, whatever this operator would render today
- inputs changed (a template edit, or `penstock.dev/restartedAt`): today's rendering is adopted
- inputs changed back: the template that is still stored for them, so that undoing an edit undoes all of it
- outside the bounds: nothing is rolled, running pods stay
- revision deleted: taken back from the Deployment, which still carries it

So an operator upgrade restarts nothing (docs/design/design.md#template-and-live-fields).
"""

from collections.abc import Sequence
from dataclasses import dataclass, replace

from penstock_api import names
from penstock_operator.decide.config import DecideConfig
from penstock_operator.decide.manifests.diff import digest
from penstock_operator.decide.manifests.metadata import Manifest, child_name
from penstock_operator.decide.manifests.pod import pod_template
from penstock_operator.decide.manifests.revision import (
    inputs_of,
    labelled,
    number_of,
    revision,
    revision_name,
    template_of,
)
from penstock_operator.decide.manifests.template_bounds import refusals
from penstock_operator.observed import ChildObject, PolicyObject, PoolObject, PoolView


@dataclass(frozen=True, slots=True)
class Pinned:
    """The template in force, and why it is not the one that the pool's author may expect."""

    template: Manifest | None
    """None: there is none yet, and the one asked for is not allowed."""
    inputs: str
    """Hash of what `template` was rendered from."""
    revision: Manifest | None
    """The ControllerRevision that must hold it; None when there is no template."""
    adopted: bool = False
    """Whether this pass replaces a template that was in force before."""
    newer_available: bool = False
    """Whether this operator would render the same inputs differently."""
    refusals: tuple[str, ...] = ()
    """Why what the author asks for is not rolled."""
    may_start_pods: bool = True
    """Whether new pods of `template` are within the bounds."""


def template_inputs(pool: PoolObject) -> str:
    """Return the hash of everything a template is a function of, the default image apart."""
    fields = {"model", "runtime", "accelerator", "drain", "template", "tls", "api_keys"}
    spec = pool.spec.model_dump(mode="json", by_alias=True, exclude_none=True, include=fields)
    restarted = pool.annotations.get(names.ANNOTATION_RESTARTED_AT, "")
    return digest([{key: value for key, value in spec.items() if value}, restarted])


def pin(view: PoolView, policies: Sequence[PolicyObject], config: DecideConfig) -> Pinned:
    """Return the template in force for a pool under `policies`, those that select it."""
    pool = view.pool
    inputs, rendered = template_inputs(pool), labelled(pool, pod_template(pool, config))
    kept = _latest(view)
    held = _held(view, kept, inputs, rendered)
    if held is not None and held.inputs == inputs:
        refused = refusals(held.template or {}, pool, policies)
        newer = revision_name(held.template or {}) != revision_name(rendered)
        return replace(held, newer_available=newer, refusals=refused, may_start_pods=not refused)
    chosen = (_stored(view, inputs) if held is not None else None) or rendered
    refused = refusals(chosen, pool, policies)
    if not refused:
        kept_in = revision(pool, chosen, inputs, _number(view, chosen))
        moved = held is not None and revision_name(held.template or {}) != revision_name(chosen)
        newer = revision_name(chosen) != revision_name(rendered)
        return Pinned(chosen, inputs, kept_in, adopted=moved, newer_available=newer)
    if held is None:
        return Pinned(None, inputs, None, refusals=refused, may_start_pods=False)
    allowed = not refusals(held.template or {}, pool, policies)
    return replace(held, refusals=refused, may_start_pods=allowed)


def _stored(view: PoolView, inputs: str) -> Manifest | None:
    """Return the template that was once rendered from these inputs, if it is still kept somewhere."""
    kept = [one for one in view.revisions if not one.deleting and inputs_of(one) == inputs]
    if kept:
        return template_of(max(kept, key=number_of))
    deployed, running = view.children.get(("Deployment", child_name(view.pool))), _running(view)
    return running if deployed is not None and inputs_of(deployed) == inputs else None


def _latest(view: PoolView) -> ChildObject | None:
    usable = [one for one in view.revisions if not one.deleting]
    return max(usable, key=number_of, default=None)


def _held(
    view: PoolView, kept: ChildObject | None, inputs: str, rendered: Manifest
) -> Pinned | None:
    """Return the template in force before this pass: from its revision, else from the Deployment."""
    if kept is not None:
        template, rendered_from = template_of(kept), inputs_of(kept) or ""
        kept_in = revision(view.pool, template, rendered_from, number_of(kept))
        return Pinned(template, rendered_from, kept_in)
    running = _running(view)
    if running is None or revision_name(running) in {None, revision_name(rendered)}:
        return None
    deployed = view.children["Deployment", child_name(view.pool)]
    rendered_from = inputs_of(deployed) or inputs
    return Pinned(running, rendered_from, revision(view.pool, running, rendered_from, 1))


def _running(view: PoolView) -> Manifest | None:
    deployed = view.children.get(("Deployment", child_name(view.pool)))
    if deployed is None or deployed.controller_uid != view.pool.uid:
        return None
    template: Manifest = deployed.manifest["spec"]["template"]
    return template


def _number(view: PoolView, rendered: Manifest) -> int:
    """Return the number that makes `rendered` the latest; a template come back is numbered anew."""
    latest = _latest(view)
    if latest is None:
        return 1
    same = latest.name == revision_name(rendered)
    return number_of(latest) + int(not same)
