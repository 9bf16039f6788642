"""Base models of API objects and of messages between operator and runtime."""

from pydantic import BaseModel, ConfigDict
from pydantic.alias_generators import to_camel


class ApiModel(BaseModel):
    """Part of an API object: frozen, camelCase on the wire, ignores unknown fields.

    The API server already rejects fields that its schema does not contain, and an older operator must still serve objects
    of a newer CRD.
    """

    model_config = ConfigDict(
        frozen=True,
        extra="ignore",
        alias_generator=to_camel,
        populate_by_name=True,
        use_attribute_docstrings=True,
    )


class WireModel(BaseModel):
    """Message between operator and runtime; ignores unknown fields, since both are upgraded independently.

    Types are strict: a boolean or a string is not accepted as a number.
    """

    model_config = ConfigDict(
        frozen=True,
        extra="ignore",
        alias_generator=to_camel,
        populate_by_name=True,
        strict=True,
    )
