"""`POST /v2/models/{m}/generate` and `/generate_stream` (Triton's generate extension)."""

from typing import Annotated

from pydantic import Field

from penstock_runtime.protocols.openai.wire.base import AskingBody, Part

_MICROSECONDS = 1e-6


class GenerateParameters(Part):
    """What Triton's back ends for language models take."""

    max_tokens: Annotated[int | None, Field(ge=1, le=2**31)] = None
    temperature: Annotated[float | None, Field(ge=0, le=100, allow_inf_nan=False)] = None
    top_p: Annotated[float | None, Field(gt=0, le=1)] = None
    top_k: Annotated[int | None, Field(ge=-1, le=2**31)] = None
    seed: Annotated[int | None, Field(ge=-(2**63), lt=2**64)] = None
    stop: str | Annotated[list[str], Field(max_length=32)] | None = None
    ignore_eos: bool = False
    priority: Annotated[int | None, Field(ge=0, le=2**31)] = None
    timeout: Annotated[int | None, Field(ge=0, lt=2**63)] = None
    """Microseconds; 0 is none."""


class GenerateBody(AskingBody):
    """One text."""

    id: str | None = None
    text_input: str
    parameters: GenerateParameters = GenerateParameters()

    @property
    def asked_seconds(self) -> float | None:
        """As `AskingBody.asked_seconds`."""
        return (self.parameters.timeout or 0) * _MICROSECONDS or None


class StreamedGenerateBody(GenerateBody):
    """The same, answered piece by piece."""

    @property
    def streams(self) -> bool:
        """As `AskingBody.streams`."""
        return True
