"""A loaded generative model as the HTTP side knows it."""

import asyncio
from dataclasses import dataclass, field

from penstock_runtime.errors import BadInput
from penstock_runtime.generation.grammar import GrammarSpec
from penstock_runtime.generation.limits import GenerationInfo
from penstock_runtime.grammar.cache import GrammarCache
from penstock_runtime.text.encoding import TextEncoder
from penstock_runtime.text.tokenizer import Tokenizer


@dataclass(frozen=True, slots=True)
class Serving:
    """Set once, when the model is warm."""

    info: GenerationInfo
    tokenizer: Tokenizer
    grammars: GrammarCache
    encoder: TextEncoder
    _one_at_a_time: asyncio.Semaphore = field(default_factory=lambda: asyncio.Semaphore(1))
    """Grammars compile in one thread: a flood of them cannot take the engine's cores."""

    @property
    def own_ends(self) -> frozenset[int]:
        """The ids that end an answer, by the model's own word."""
        return self.tokenizer.end_ids | frozenset(self.info.stop_ids)

    async def compile(self, spec: GrammarSpec, field_name: str) -> None:
        """Compile `spec`, off the event loop, so that the engine finds it done.

        Raises:
            BadInput: it does not compile, or is too large.
        """
        try:
            if not self.grammars.knows(spec):
                async with self._one_at_a_time:
                    await asyncio.to_thread(self.grammars.start, spec)
        except ValueError as error:
            raise BadInput(
                f"`{field_name}` cannot be enforced: {error}", field=field_name
            ) from error
