"""Base types and parsing of bodies: unknown fields are ignored and logged, known but unsupported ones are rejected."""

from typing import Any, ClassVar, Final, TypeVar

from pydantic import BaseModel, ConfigDict, ValidationError
from pydantic_core import ErrorDetails

from penstock_runtime.errors import BadInput, BrokenJson, shown
from penstock_runtime.protocols.common.json_structure import SMALL_BYTES, TYPED, structure_of

Body = TypeVar("Body", bound="WireBody")


class BodyPart(BaseModel):
    """A part of a body.

    Types are strict: a float field accepts an integer, but a boolean or text is never a number, and 1.0 is not an integer.
    """

    model_config = ConfigDict(extra="allow", frozen=True, strict=True, allow_inf_nan=False)


class WireBody(BodyPart):
    """A whole body."""

    unsupported: ClassVar[dict[str, tuple[Any, ...]]] = {}
    """Fields of the API that are not implemented, and their values that have no effect and are therefore accepted."""
    ignored: ClassVar[frozenset[str]] = frozenset()
    """Fields of the API that change no answer, which are ignored without a line in the log."""

    def unknown(self) -> list[str]:
        """Return the names of unknown fields."""
        extra = self.model_extra or {}
        return sorted(extra.keys() - self.unsupported.keys() - self.ignored)

    def unsupported_fields(self) -> list[str]:
        """Return the names of unsupported fields whose values would have an effect."""
        extra, accepted = self.model_extra or {}, self.unsupported
        return [
            name
            for name, value in extra.items()
            if name in accepted and not _is_one_of(value, accepted[name])
        ]


def _is_one_of(value: Any, accepted: tuple[Any, ...]) -> bool:
    """Return whether `value` has no effect; a boolean never equals a number."""
    return value is None or any(
        value == option and isinstance(value, bool) == isinstance(option, bool)
        for option in accepted
    )


class GenerationBody(WireBody):
    """A body that requests a generation, as `GenerationHandler` uses it."""

    @property
    def requested_model(self) -> str | None:
        """The model that it names."""
        return None

    @property
    def requested_seconds(self) -> float | None:
        """The time in seconds that its answer may take."""
        return None

    @property
    def streams(self) -> bool:
        """Whether its answer is a stream."""
        return False


def read(kind: type[Body], body: bytes | bytearray) -> Body:
    """Return the body as `kind`.

    Raises:
        BadInput: the body is not JSON or takes too long to decode, or a field is invalid or not supported.
    """
    if len(body) > SMALL_BYTES:
        structure_of(body, TYPED).check(TYPED, [])
    try:
        parsed = kind.model_validate_json(body)
    except ValidationError as error:
        raise _bad_input(error) from error
    for name in parsed.unsupported_fields():
        raise BadInput(
            f"`{name}` is not supported here: remove it",
            field=name,
            code="unsupported_parameter",
        )
    return parsed


_CODES: Final = {
    "missing": "missing_required_parameter",
    "too_short": "array_below_min_length",
    "too_long": "array_above_max_length",
    "string_too_short": "string_below_min_length",
    "string_too_long": "string_above_max_length",
}


def _bad_input(error: ValidationError) -> BadInput:
    faults = error.errors(include_url=False)
    first = faults[0]
    if first["type"] == "json_invalid":
        return BrokenJson(f"the body is not valid JSON: {first['msg']}", field="body")
    # for a field of several types, a fault within the right type is more precise than "wrong type"
    first = max(
        (fault for fault in faults if fault["loc"][:1] == first["loc"][:1]),
        key=lambda fault: (not _is_of_type(fault), len(fault["loc"])),
    )
    field = ".".join(str(part) for part in first["loc"] if not _is_union_arm(part)) or "body"
    got = "" if first["type"] == "missing" else f", got {shown(first.get('input'))}"
    return BadInput(f"`{field}`: {_plain(first['msg'])}{got}", field=field, code=_code(first))


def _is_of_type(error: ErrorDetails) -> bool:
    """Return whether the fault is the type of a value, for the field or for one arm of its union."""
    kind = error["type"]
    if kind == "literal_error":
        return _is_union_arm(error["loc"][-1])
    return kind.endswith("_type") or kind in ("int_from_float", "int_parsing")


def _code(error: ErrorDetails) -> str:
    """Return OpenAI's code for a fault of pydantic."""
    kind = error["type"]
    if kind.startswith(("greater_than", "less_than")):
        [bound] = error["ctx"].values()
        number = "integer" if type(bound) is int else "decimal"
        return f"{number}_{'below_min' if kind.startswith('greater') else 'above_max'}_value"
    if kind == "too_short" and not error["input"]:
        return "empty_array"
    if kind != "literal_error" and _is_of_type(error):
        return "invalid_type"
    return _CODES.get(kind, "invalid_value")


def _is_union_arm(part: int | str) -> bool:
    """Return whether a part of pydantic's location is a union's arm, such as `list[str]` or a class, and not a field."""
    return isinstance(part, str) and (
        "[" in part or part[:1].isupper() or part in ("str", "int", "constrained-str")
    )


def _plain(message: str) -> str:
    return message.removeprefix("Value error, ")
