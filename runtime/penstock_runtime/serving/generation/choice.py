"""`Choice`: turns the tokens of one choice into text, cut at its stop string."""

from dataclasses import dataclass

from penstock_runtime.engine.continuous.messages import (
    ChoiceFinished,
    FinishReason,
    Logprob,
    TokensEmitted,
)
from penstock_runtime.engine.continuous.prompt_scores import PromptScores
from penstock_runtime.serving.generation.request import GenerationCall, Prompt
from penstock_runtime.text.detokenizer import Detokenizer
from penstock_runtime.text.stop_strings import StopMatcher
from penstock_runtime.text.vocabulary import Vocabulary


@dataclass(frozen=True, slots=True)
class Chunk:
    """New output of one choice. Text that may become a stop string is held back."""

    index: int
    """Index of the choice, over all prompts."""
    text: str = ""
    tokens: tuple[int, ...] = ()
    logprobs: tuple[Logprob, ...] = ()
    finish: FinishReason | None = None
    stop: str | int | None = None
    """The stop string or the stop id that ended it; None: its grammar, the model's own end, or its length."""
    scored: PromptScores | None = None
    """Log-probabilities of its prompt, in a chunk of their own before the first choice of the prompt."""


class Choice:
    """The state of one choice on the HTTP side."""

    __slots__ = (
        "_detokenizer",
        "_matcher",
        "_min_tokens",
        "_own_ends",
        "finished",
        "ids",
        "index",
        "tokens",
    )

    def __init__(
        self,
        index: int,
        prompt: Prompt,
        call: GenerationCall,
        vocabulary: Vocabulary,
        own_ends: frozenset[int],
    ) -> None:
        """`own_ends` are the model's own stop ids, which responses do not name."""
        self.index = index
        self.tokens = 0
        """Counted as vLLM does: with the stop id, and with the token that completed a stop string."""
        self.finished = False
        self.ids: list[int] = []
        """Tokens so far, without those after its stop string and without a stop id."""
        self._detokenizer = Detokenizer(
            vocabulary, skip_special=call.skip_special, kept=call.markers
        )
        self._matcher = StopMatcher(call.stops, include=call.include_stop)
        self._min_tokens = prompt.params.min_tokens if call.stops else 0
        self._own_ends = own_ends

    def emitted(self, event: TokensEmitted) -> Chunk | None:
        """Take new tokens; those after the stop string are dropped."""
        if self.finished:
            return None
        text = ""
        for place, token in enumerate(event.tokens):
            self.tokens += 1
            self.ids.append(token)
            piece = self._detokenizer.add((token,))
            if self.tokens <= self._min_tokens:
                text += piece
                continue
            match = self._matcher.add(piece)
            text += match.text
            if match.stop is not None:
                self.finished = True
                return self._piece(event, place + 1, text, FinishReason.STOP, match.stop)
        return self._piece(event, len(event.tokens), text)

    def ended(self, event: ChoiceFinished) -> Chunk | None:
        """Take the end of the choice, and release the text that was held back."""
        if self.finished:
            return None
        self.finished = True
        match = self._matcher.add(self._detokenizer.finish())
        if match.stop is not None:
            return Chunk(self.index, match.text, finish=FinishReason.STOP, stop=match.stop)
        self.tokens += event.stop_id is not None
        stop = None if event.stop_id in self._own_ends else event.stop_id
        text = match.text + self._matcher.finish()
        return Chunk(self.index, text, finish=event.reason, stop=stop)

    def _piece(
        self,
        event: TokensEmitted,
        count: int,
        text: str,
        finish: FinishReason | None = None,
        stop: str | None = None,
    ) -> Chunk:
        logprobs = event.logprobs[:count]
        return Chunk(self.index, text, event.tokens[:count], logprobs, finish, stop)
