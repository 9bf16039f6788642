"""ControllerRevisions that store a pool's pinned pod templates."""

from typing import Any

from penstock_api import names
from penstock_operator.decide.manifests.diff import digest
from penstock_operator.decide.manifests.metadata import Manifest, metadata
from penstock_operator.observed import ChildObject, PoolObject


def labelled(pool: PoolObject, template: Manifest) -> Manifest:
    """Return `template` with the label of its revision.

    The name is `<pool>-<digest of the template>`: at most 63 characters, the limit of a label value.
    """
    own = template["metadata"]
    labels = {**own["labels"], names.LABEL_REVISION: f"{pool.name}-{digest(template)}"}
    return {**template, "metadata": {**own, "labels": labels}}


def revision_name(template: Manifest) -> str | None:
    """Return the name of the revision that a labelled template belongs to."""
    labels: dict[str, str] = template.get("metadata", {}).get("labels", {})
    return labels.get(names.LABEL_REVISION)


def revision(pool: PoolObject, template: Manifest, inputs: str, number: int) -> Manifest:
    """Return the ControllerRevision of a labelled template; `number` orders the pool's history."""
    name = revision_name(template) or pool.name
    return {
        "apiVersion": "apps/v1",
        "kind": "ControllerRevision",
        "metadata": metadata(pool, name, {names.ANNOTATION_TEMPLATE_INPUTS: inputs}),
        "data": {"template": template},
        "revision": number,
    }


def number_of(revision: ChildObject) -> int:
    """Return a revision's number in the pool's history."""
    return int(revision.manifest.get("revision", 0))


def inputs_of(child: ChildObject) -> str | None:
    """Return the hash of the inputs that a revision, or a Deployment, was rendered from."""
    annotations: dict[str, str] = child.manifest.get("metadata", {}).get("annotations") or {}
    return annotations.get(names.ANNOTATION_TEMPLATE_INPUTS)


def template_of(revision: ChildObject) -> Manifest:
    """Return the pod template in a revision."""
    template: dict[str, Any] = revision.manifest["data"]["template"]
    return template
