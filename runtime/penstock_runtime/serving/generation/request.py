"""`GenerationCall`: a request for generated text, independent of its protocol."""

from dataclasses import dataclass

from penstock_runtime.engine.continuous.grammar.spec import GrammarSpec
from penstock_runtime.engine.continuous.sampling_params import SamplingParams


@dataclass(frozen=True, slots=True)
class Prompt:
    """One prompt, validated against the model."""

    ids: tuple[int, ...]
    params: SamplingParams
    """Parameters of this prompt; `max_tokens` depends on its length."""
    text: str = ""
    """Text for `echo`."""


@dataclass(frozen=True, slots=True)
class GrammarShape:
    """The compiled grammar of an answer."""

    address: str
    """Address of the process that has the compiled grammar."""
    field: str
    """Field of the body that requested it."""
    spec: GrammarSpec
    """Its text, which another pod compiles if it continues the answer."""


@dataclass(frozen=True, slots=True)
class GenerationCall:
    """One request of a client: each prompt is generated `n` times."""

    prompts: tuple[Prompt, ...]
    n: int = 1
    stops: tuple[str, ...] = ()
    include_stop: bool = False
    skip_special: bool = True
    markers: frozenset[int] = frozenset()
    """Control tokens that stay in the text, because they delimit the parts of the answer."""
    shape: GrammarShape | None = None
    priority: int = 0
    tenant: str = ""
    salt: str = ""
    timeout_seconds: float | None = None

    @property
    def choices(self) -> int:
        """Number of answers; answer `i` is choice `i % n` of prompt `i // n`."""
        return len(self.prompts) * self.n
