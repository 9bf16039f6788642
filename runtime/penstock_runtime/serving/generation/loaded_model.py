"""`Serving`: a loaded generative model on the HTTP side."""

from contextlib import ExitStack
from dataclasses import dataclass

from penstock_runtime.engine.continuous.grammar.service import GrammarService
from penstock_runtime.engine.continuous.grammar.spec import GrammarRejected, GrammarSpec
from penstock_runtime.engine.continuous.limits import GenerationInfo
from penstock_runtime.errors import BadInput, RequestRejected
from penstock_runtime.serving.generation.request import GrammarShape
from penstock_runtime.text.encoding import TextEncoder
from penstock_runtime.text.tokenizer import Tokenizer


@dataclass(frozen=True, slots=True)
class Serving:
    """Set once, when the model is warm."""

    info: GenerationInfo
    tokenizer: Tokenizer
    grammars: GrammarService
    encoder: TextEncoder

    @property
    def own_ends(self) -> frozenset[int]:
        """Ids that end an answer, by the tokenizer and the model's configuration; the model has no logit for others."""
        ends = self.tokenizer.end_ids | frozenset(self.info.stop_ids)
        return frozenset(each for each in ends if each < self.info.vocabulary)

    async def compile(
        self, spec: GrammarSpec, field_name: str, resources: ExitStack
    ) -> GrammarShape:
        """Compile `spec` in a process of its own, which lives at least until `resources` is closed.

        Raises:
            BadInput: it does not compile, or exceeds a limit.
            RequestRejected: it cannot be tried now.
        """
        try:
            lease = await self.grammars.lease(spec)
        except RequestRejected as rejection:
            rejection.field = field_name
            raise
        except GrammarRejected as error:
            raise BadInput(
                f"`{field_name}` cannot be enforced: {error}", field=field_name
            ) from error
        resources.callback(lease.release)
        return GrammarShape(lease.address, field_name, spec)
