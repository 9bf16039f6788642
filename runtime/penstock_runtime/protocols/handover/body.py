"""`ContinuationBody`: a generation of another pod, as its client's own request with the output so far."""

from typing import Annotated, Final

from pydantic import ConfigDict, Field
from typing_extensions import override

from penstock_runtime.engine.continuous.grammar.spec import GrammarKind
from penstock_runtime.engine.continuous.messages import Resumption
from penstock_runtime.errors import BadInput
from penstock_runtime.protocols.openai.wire.base import BodyPart
from penstock_runtime.protocols.openai.wire.completion import TokenIds
from penstock_runtime.protocols.openai.wire.options import (
    MAX_CHOICES,
    MAX_LOGPROBS,
    GenerationOptions,
)

MAX_STOP_IDS: Final = 4096
"""The client's own and the model's."""
FIELDS: Final = frozenset(
    {
        *("identity", "prompt", "resumed", "grammar", "tenant"),
        *("n", "max_tokens", "min_tokens", "seed", "stop_token_ids", "ignore_eos", "logprobs"),
        *("temperature", "top_p", "top_k", "min_p", "logit_bias"),
        *("repetition_penalty", "presence_penalty", "frequency_penalty"),
        *("priority", "timeout", "cache_salt"),
    }
)
"""What a continuation consists of; any other field would be ignored, and the answer would differ."""


class ResumedChoice(BodyPart):
    """A choice that has not finished."""

    model_config = ConfigDict(extra="forbid")

    choice: Annotated[int, Field(ge=0, lt=MAX_CHOICES)]
    tokens: Annotated[list[Annotated[int, Field(ge=0, lt=2**31)]], Field(fail_fast=True)]


class GrammarText(BodyPart):
    """A grammar as the client wrote it."""

    model_config = ConfigDict(extra="forbid")

    kind: Annotated[GrammarKind, Field(strict=False)]
    text: str


class ContinuationBody(GenerationOptions):
    """The options of generation; what is done with the text stays with the pod that answers the client."""

    identity: str
    """Weights and type of the model, which must be those here."""
    prompt: TokenIds
    max_tokens: Annotated[int, Field(ge=1, le=2**31)]
    seed: Annotated[int, Field(ge=0, lt=2**63)]
    stop_token_ids: Annotated[list[int], Field(max_length=MAX_STOP_IDS)]
    logprobs: Annotated[int | None, Field(ge=0, le=MAX_LOGPROBS)] = None
    resumed: Annotated[list[ResumedChoice], Field(min_length=1, max_length=MAX_CHOICES)]
    grammar: GrammarText | None = None
    tenant: str = ""

    @override
    def unsupported_fields(self) -> list[str]:
        """Return the fields outside `FIELDS`: a pod that does not know one cannot continue the generation."""
        return sorted(self.model_fields_set - FIELDS)

    def resumptions(self, vocabulary: int) -> tuple[Resumption, ...]:
        """Return the choices to continue.

        Raises:
            BadInput: a choice is not one of `n`, is there twice, or has no token left; or an id is not in the vocabulary.
        """
        known = {entry.choice for entry in self.resumed}
        if len(known) < len(self.resumed) or max(known) >= self.choices:
            raise BadInput(
                f"`resumed` must name different choices of the {self.choices} of `n`",
                field="resumed",
            )
        for entry in self.resumed:
            if len(entry.tokens) >= self.max_tokens or max(entry.tokens, default=0) >= vocabulary:
                raise BadInput(
                    f"`resumed`: choice {entry.choice} must have fewer than {self.max_tokens} tokens,"
                    f" each below {vocabulary}",
                    field="resumed",
                )
        return tuple(Resumption(entry.choice, tuple(entry.tokens)) for entry in self.resumed)
