"""What all bodies share: unknown fields are kept and logged, known but unsupported ones are refused."""

from typing import Any, ClassVar, TypeVar

from pydantic import BaseModel, ConfigDict, ValidationError

from penstock_runtime.errors import BadInput

Body = TypeVar("Body", bound="WireBody")


class Part(BaseModel):
    """A part of a body."""

    model_config = ConfigDict(extra="allow", frozen=True)


class WireBody(Part):
    """A whole body."""

    unsupported: ClassVar[dict[str, tuple[Any, ...]]] = {}
    """Fields of this API that nothing here acts on, and the values at which they ask for nothing."""
    ignored: ClassVar[frozenset[str]] = frozenset()
    """Fields of this API that change no answer: not worth a line in the log."""

    def unknown(self) -> list[str]:
        """Return the names of fields that nobody knows."""
        extra = self.model_extra or {}
        return sorted(extra.keys() - self.unsupported.keys() - self.ignored)

    def asked_in_vain(self) -> list[str]:
        """Return the names of fields that ask for what nothing here does."""
        extra, harmless = self.model_extra or {}, self.unsupported
        return [
            name
            for name, value in extra.items()
            if name in harmless and value not in (None, *harmless[name])
        ]


class AskingBody(WireBody):
    """A body that asks for a generation, as far as the way there cares."""

    @property
    def asked_model(self) -> str | None:
        """The model it names."""
        return None

    @property
    def asked_seconds(self) -> float | None:
        """How long its answer may take."""
        return None

    @property
    def streams(self) -> bool:
        """Whether its answer comes in pieces."""
        return False


def read(kind: type[Body], body: bytes | bytearray) -> Body:
    """Return the body as `kind`.

    Raises:
        BadInput: it is no JSON, a field is wrong, or a field asks for what nothing here does.
    """
    try:
        found = kind.model_validate_json(body)
    except ValidationError as error:
        raise _bad_input(error) from error
    for name in found.asked_in_vain():
        raise BadInput(f"`{name}` is not supported here: leave it out", field=name)
    return found


def _bad_input(error: ValidationError) -> BadInput:
    first = error.errors(include_url=False)[0]
    if first["type"] == "json_invalid":
        return BadInput(f"the body is not valid JSON: {first['msg']}", field="body")
    field = ".".join(str(part) for part in first["loc"] if not _is_union_arm(part)) or "body"
    got = "" if first["type"] == "missing" else f", got {first.get('input')!r:.80}"
    return BadInput(f"`{field}`: {_plain(first['msg'])}{got}", field=field)


def _is_union_arm(part: int | str) -> bool:
    """Return whether pydantic put the name of a union's arm, not of a field, into a location."""
    return isinstance(part, str) and ("[" in part or part in ("str", "int", "constrained-str"))


def _plain(message: str) -> str:
    return message.removeprefix("Value error, ")
