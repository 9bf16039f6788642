"""`POST /v2/models/{m}/generate` and `/generate_stream` (Triton's generate extension)."""

from typing import Annotated, Any, ClassVar, Literal

from pydantic import Field

from penstock_runtime.protocols.openai.wire.base import GenerationBody
from penstock_runtime.protocols.openai.wire.completion import CompletionBody
from penstock_runtime.protocols.openai.wire.options import GenerationOptions

PARAMETERS = "parameters"
_MICROSECONDS = 1e-6


class GenerateParameters(GenerationOptions):
    """The options of completions, but for what one text alone cannot tell; the route says whether it is streamed."""

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
    """Microseconds, as everywhere in KServe v2; 0 is none."""


class GenerateBody(GenerationBody):
    """One text."""

    id: str | None = None
    text_input: str
    parameters: GenerateParameters = GenerateParameters()

    def unknown(self) -> list[str]:
        """As `WireBody.unknown`, and of the parameters."""
        return super().unknown() + [parameter(name) for name in self.parameters.unknown()]

    def unsupported_fields(self) -> list[str]:
        """As `WireBody.unsupported_fields`, and of the parameters."""
        inside = self.parameters.unsupported_fields()
        return super().unsupported_fields() + [parameter(name) for name in inside]

    @property
    def requested_model(self) -> str | None:
        """As `GenerationBody.requested_model`; the path names one too."""
        return self.parameters.model

    @property
    def requested_seconds(self) -> float | None:
        """As `GenerationBody.requested_seconds`."""
        return (self.parameters.timeout or 0) * _MICROSECONDS or None

    def as_completion(self) -> CompletionBody:
        """Return the same as a completion: every value was judged under that type when this body was read."""
        shared = CompletionBody.model_fields.keys() & GenerateParameters.model_fields.keys()
        options = {name: getattr(self.parameters, name) for name in shared - {"stream", "timeout"}}
        return CompletionBody.model_construct(
            prompt=self.text_input, timeout=self.requested_seconds, stream=self.streams, **options
        )


class StreamedGenerateBody(GenerateBody):
    """The same, answered piece by piece."""

    @property
    def streams(self) -> bool:
        """As `GenerationBody.streams`."""
        return True


def parameter(name: str) -> str:
    """Return how an error names a parameter."""
    return f"{PARAMETERS}.{name}"
