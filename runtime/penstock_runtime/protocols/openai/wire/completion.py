"""The bodies of `POST /v1/completions`, `/tokenize` and `/detokenize`."""

from typing import Annotated, Any, ClassVar

from pydantic import Field

from penstock_runtime.protocols.openai.wire.base import WireBody
from penstock_runtime.protocols.openai.wire.chat import Message, TemplateOptions
from penstock_runtime.protocols.openai.wire.options import MAX_LOGPROBS, Flag, GenerationOptions

MAX_PROMPTS = 128
TokenIds = Annotated[
    list[Annotated[int, Field(ge=0, lt=2**31)]], Field(min_length=1, fail_fast=True)
]


class CompletionBody(GenerationOptions):
    """One or several prompts, as text or as token ids."""

    unsupported: ClassVar[dict[str, tuple[Any, ...]]] = {
        **GenerationOptions.unsupported,
        "suffix": ("",),
    }

    prompt: (
        str
        | Annotated[list[str], Field(min_length=1, max_length=MAX_PROMPTS, fail_fast=True)]
        | TokenIds
        | Annotated[list[TokenIds], Field(min_length=1, max_length=MAX_PROMPTS, fail_fast=True)]
    )
    max_tokens: Annotated[int | None, Field(ge=0, le=2**31)] = None
    """0 with `echo` returns the prompt alone, as evaluations of models need it."""
    echo: Flag = False
    logprobs: Annotated[int | None, Field(ge=0, le=MAX_LOGPROBS)] = None
    add_special_tokens: bool = True

    @property
    def max_prompt_logprobs(self) -> int | None:
        """The number of alternatives for each prompt token, in either field of the answer; None for no log-probabilities."""
        echoed = self.logprobs if self.echo else None
        counts = [count for count in (echoed, self.prompt_logprobs) if count is not None]
        return max(counts, default=None)

    @property
    def values_per_token(self) -> tuple[int, str]:
        """The number of values that each choice returns per prompt token, and the field that requests most of them."""
        echoed = self.logprobs if self.echo else None
        scores = sum(1 + top for top in (echoed, self.prompt_logprobs) if top is not None)
        field = "echo" if self.echo else "return_token_ids"
        return scores + self.echo + self.return_token_ids, (
            field if self.prompt_logprobs is None else "prompt_logprobs"
        )

    @property
    def prompts(self) -> list[str] | list[list[int]]:
        """The prompts, each text or token ids."""
        given: Any = self.prompt
        if isinstance(given, str):
            return [given]
        return [given] if isinstance(given[0], int) else given


class TokenizeBody(TemplateOptions):
    """A text, or messages as in a chat."""

    model: str | None = None
    prompt: str | None = None
    messages: Annotated[
        list[Message] | None, Field(min_length=1, max_length=8192, fail_fast=True)
    ] = None
    return_token_strs: Flag = False


class DetokenizeBody(WireBody):
    """Token ids."""

    model: str | None = None
    tokens: Annotated[list[Annotated[int, Field(ge=0, lt=2**31)]], Field(fail_fast=True)]
