"""Resource claims of dynamic resource allocation (DRA): of the pod, and of its container."""

from pydantic import ConfigDict

from penstock_api.base import ApiModel
from penstock_api.types.fields import Label, Name, rule, rules


class PodResourceClaim(ApiModel):
    """As core/v1: a claim by name, which all replicas share, or a template, from which each replica gets its own."""

    model_config = ConfigDict(
        json_schema_extra=rules(
            rule(
                "has(self.resourceClaimName) != has(self.resourceClaimTemplateName)",
                "resourceClaims entry %s sets %s of resourceClaimName and resourceClaimTemplateName: set exactly one",
                "self.name",
                "has(self.resourceClaimName) ? 'both' : 'neither'",
            )
        )
    )
    name: Label
    """Name that `container.resources.claims` refers to."""
    resource_claim_name: Name | None = None
    """A ResourceClaim in the pool's namespace, shared by all replicas."""
    resource_claim_template_name: Name | None = None
    """A ResourceClaimTemplate in the pool's namespace, from which each replica gets a claim."""


class ContainerResourceClaim(ApiModel):
    """As core/v1."""

    name: Label
    """Name of an entry of `template.resourceClaims`."""
    request: Label | None = None
    """One request of the claim; defaults to all of them."""
