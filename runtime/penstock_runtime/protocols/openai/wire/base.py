"""What all bodies share: unknown fields are kept and logged, known but unsupported ones are refused."""

from typing import Any, ClassVar, Final, TypeVar

from pydantic import BaseModel, ConfigDict, ValidationError
from pydantic_core import ErrorDetails

from penstock_runtime.errors import BadInput, BrokenJson, shown
from penstock_runtime.protocols.common.json_structure import SMALL_BYTES, TYPED, structure_of

Body = TypeVar("Body", bound="WireBody")


class BodyPart(BaseModel):
    """A part of a body.

    Types are strict: an integer is a float too, but no boolean or text is a number, and 1.0 is no integer.
    """

    model_config = ConfigDict(extra="allow", frozen=True, strict=True, allow_inf_nan=False)


class WireBody(BodyPart):
    """A whole body."""

    unsupported: ClassVar[dict[str, tuple[Any, ...]]] = {}
    """Fields of this API that nothing here acts on, and the values at which they ask for nothing."""
    ignored: ClassVar[frozenset[str]] = frozenset()
    """Fields of this API that change no answer: not worth a line in the log."""

    def unknown(self) -> list[str]:
        """Return the names of fields that nobody knows."""
        extra = self.model_extra or {}
        return sorted(extra.keys() - self.unsupported.keys() - self.ignored)

    def unsupported_fields(self) -> list[str]:
        """Return the names of fields that ask for what nothing here does."""
        extra, harmless = self.model_extra or {}, self.unsupported
        return [
            name
            for name, value in extra.items()
            if name in harmless and not _is_one_of(value, harmless[name])
        ]


def _is_one_of(value: Any, harmless: tuple[Any, ...]) -> bool:
    """Return whether `value` asks for nothing; a boolean equals no number here."""
    return value is None or any(
        value == one and isinstance(value, bool) == isinstance(one, bool) for one in harmless
    )


class GenerationBody(WireBody):
    """A body that asks for a generation, as far as the way there cares."""

    @property
    def requested_model(self) -> str | None:
        """The model it names."""
        return None

    @property
    def requested_seconds(self) -> float | None:
        """How long its answer may take."""
        return None

    @property
    def streams(self) -> bool:
        """Whether its answer comes in pieces."""
        return False


def read(kind: type[Body], body: bytes | bytearray) -> Body:
    """Return the body as `kind`.

    Raises:
        BadInput: it is no JSON, or too much at once, a field is wrong, or a field asks for what nothing here does.
    """
    if len(body) > SMALL_BYTES:
        structure_of(body, TYPED).check(TYPED, [])
    try:
        found = kind.model_validate_json(body)
    except ValidationError as error:
        raise _bad_input(error) from error
    for name in found.unsupported_fields():
        raise BadInput(
            f"`{name}` is not supported here: leave it out",
            field=name,
            code="unsupported_parameter",
        )
    return found


_CODES: Final = {
    "missing": "missing_required_parameter",
    "too_short": "array_below_min_length",
    "too_long": "array_above_max_length",
    "string_too_short": "string_below_min_length",
    "string_too_long": "string_above_max_length",
}


def _bad_input(error: ValidationError) -> BadInput:
    found = error.errors(include_url=False)
    first = found[0]
    if first["type"] == "json_invalid":
        return BrokenJson(f"the body is not valid JSON: {first['msg']}", field="body")
    # where a field may be of several types, the fault within the right type says more than the first type's name
    first = next(
        (one for one in found if one["loc"][:1] == first["loc"][:1] and not _is_of_type(one)), first
    )
    field = ".".join(str(part) for part in first["loc"] if not _is_union_arm(part)) or "body"
    got = "" if first["type"] == "missing" else f", got {shown(first.get('input'))}"
    return BadInput(f"`{field}`: {_plain(first['msg'])}{got}", field=field, code=_code(first))


def _is_of_type(error: ErrorDetails) -> bool:
    """Return whether a value is of another type than the field, or than one of its types."""
    kind = error["type"]
    return kind.endswith("_type") or kind in ("int_from_float", "int_parsing", "literal_error")


def _code(error: ErrorDetails) -> str:
    """Return OpenAI's code for what pydantic found."""
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
    """Return whether pydantic put the name of a union's arm, not of a field, into a location."""
    return isinstance(part, str) and ("[" in part or part in ("str", "int", "constrained-str"))


def _plain(message: str) -> str:
    return message.removeprefix("Value error, ")
