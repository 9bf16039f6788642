"""The bodies of `POST /v2/models/{m}/generate` and `/generate_stream` (Triton's generate extension)."""

from typing import Annotated, Any, ClassVar, Literal

from pydantic import Field
from typing_extensions import override

from penstock_runtime.protocols.openai.wire.base import GenerationBody
from penstock_runtime.protocols.openai.wire.completion import CompletionBody
from penstock_runtime.protocols.openai.wire.options import GenerationOptions

PARAMETERS = "parameters"
_MICROSECONDS = 1e-6


class GenerateParameters(GenerationOptions):
    """The options of completions without those that need more than a text in the answer; the route decides on streaming."""

    unsupported: ClassVar[dict[str, tuple[Any, ...]]] = {
        **GenerationOptions.unsupported,
        "suffix": ("",),
        "echo": (False,),
        "logprobs": (),
    }

    n: Annotated[int | None, Field(ge=1, le=1)] = None
    return_token_ids: Literal[False] = False
    prompt_logprobs: None = None
    add_special_tokens: bool = True
    timeout: Annotated[int | None, Field(ge=0, lt=2**63)] = None
    """Microseconds, as everywhere in KServe v2; 0 for none."""


class GenerateBody(GenerationBody):
    """One text."""

    id: str | None = None
    text_input: str
    parameters: GenerateParameters = GenerateParameters()

    @override
    def unknown(self) -> list[str]:
        """Return the names of unknown fields, those of `parameters` included."""
        return super().unknown() + [parameter(name) for name in self.parameters.unknown()]

    @override
    def unsupported_fields(self) -> list[str]:
        """Return the names of unsupported fields with an effect, those of `parameters` included."""
        inside = self.parameters.unsupported_fields()
        return super().unsupported_fields() + [parameter(name) for name in inside]

    @property
    @override
    def requested_model(self) -> str | None:
        """The model in `parameters`; the path names one too."""
        return self.parameters.model

    @property
    @override
    def requested_seconds(self) -> float | None:
        return (self.parameters.timeout or 0) * _MICROSECONDS or None

    def as_completion(self) -> CompletionBody:
        """Return the equivalent completion; each value is valid for it, since the types of the fields are equal."""
        shared = CompletionBody.model_fields.keys() & GenerateParameters.model_fields.keys()
        options = {name: getattr(self.parameters, name) for name in shared - {"stream", "timeout"}}
        return CompletionBody.model_construct(
            prompt=self.text_input, timeout=self.requested_seconds, stream=self.streams, **options
        )


class StreamedGenerateBody(GenerateBody):
    """The body of `/generate_stream`."""

    @property
    @override
    def streams(self) -> bool:
        return True


def parameter(name: str) -> str:
    """Return the name of a parameter in errors."""
    return f"{PARAMETERS}.{name}"
