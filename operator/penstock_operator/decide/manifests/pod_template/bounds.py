"""Bounds of policies on pod templates: allowed images, ServiceAccounts, PriorityClasses, RuntimeClasses and schedulers.

An absent list sets no bound; an empty one allows only the pool's own ServiceAccount and no image; several policies
intersect. The bounds apply to the rendered template, so that they also apply to a stored one.
"""

from collections.abc import Iterable, Sequence

from penstock_api.types.policy import TemplateBounds
from penstock_operator.decide.manifests.metadata import Manifest, child_name
from penstock_operator.observed import PolicyObject, PoolObject

DEFAULT_SCHEDULER = "default-scheduler"
"""Written by the API server into a Deployment whose template names no scheduler, from which a template is restored."""


def violations(
    template: Manifest, pool: PoolObject, policies: Iterable[PolicyObject]
) -> tuple[str, ...]:
    """Return a sentence for every value in `template` that a policy does not allow."""
    return tuple(
        sentence
        for policy in policies
        if policy.spec.bounds is not None and policy.spec.bounds.template is not None
        for sentence in _violations(template, pool, policy.name, policy.spec.bounds.template)
    )


def _violations(
    template: Manifest, pool: PoolObject, policy: str, bounds: TemplateBounds
) -> Iterable[str]:
    spec, allowed = template["spec"], bounds.allowed_images
    for field, image in _images(spec):
        reference = full_reference(image)
        if allowed is not None and not reference.startswith(tuple(allowed)):
            yield _sentence(field, reference, policy, allowed, "does not start with any of")
    account, accounts = spec["serviceAccountName"], bounds.service_account_names
    if accounts is not None and account not in {*accounts, child_name(pool)}:
        yield _sentence("template.serviceAccountName", account, policy, accounts, "is not among")
    for field, names in (
        ("priorityClassName", bounds.priority_class_names),
        ("runtimeClassName", bounds.runtime_class_names),
        ("schedulerName", bounds.scheduler_names),
    ):
        name = spec.get(field)
        if name and name != DEFAULT_SCHEDULER and names is not None and name not in names:
            yield _sentence(f"template.{field}", name, policy, names, "is not among")


def _images(spec: Manifest) -> Iterable[tuple[str, str]]:
    """Yield every image that a pod pulls, with its field."""
    for container in spec["containers"]:
        yield "runtime.image", container["image"]
    for volume in spec.get("volumes") or ():
        if "image" in volume:
            yield "model.source.image.reference", volume["image"]["reference"]


def _sentence(field: str, value: str, policy: str, allowed: Sequence[str], how: str) -> str:
    listed = ", ".join(allowed) or "none"
    return (
        f"spec.{field} '{value}' {how} those that policy {policy} allows ({listed}):"
        " use an allowed value, or have the owner of the policy extend the list"
    )


def full_reference(image: str) -> str:
    """Return an image reference with its registry, completed as container tools do."""
    first, _, rest = image.partition("/")
    if rest and ("." in first or ":" in first or first == "localhost"):
        return image
    return f"docker.io/{image}" if rest else f"docker.io/library/{image}"
