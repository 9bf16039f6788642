"""What every type of the API has in common."""

from pydantic import BaseModel, ConfigDict
from pydantic.alias_generators import to_camel


class ApiModel(BaseModel):
    """A part of an API object: frozen, camelCase on the wire, deaf to fields of newer schemas.

    Unknown fields are ignored because the API server already refused what its schema does not know,
    and an older operator must still serve an object written under a newer CRD.
    """

    model_config = ConfigDict(
        frozen=True,
        extra="ignore",
        alias_generator=to_camel,
        populate_by_name=True,
        use_attribute_docstrings=True,
    )


class WireModel(BaseModel):
    """A message between operator and runtime, deaf to fields of newer versions: the two are upgraded apart.

    Types are strict: a boolean or a string is never taken for a number.
    """

    model_config = ConfigDict(
        frozen=True,
        extra="ignore",
        alias_generator=to_camel,
        populate_by_name=True,
        strict=True,
    )
