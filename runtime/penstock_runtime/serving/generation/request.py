"""What a client asks of generation, whatever protocol it speaks."""

from dataclasses import dataclass

from penstock_runtime.engine.continuous.sampling_params import SamplingParams


@dataclass(frozen=True, slots=True)
class Prompt:
    """One prompt, judged against the model."""

    ids: tuple[int, ...]
    params: SamplingParams
    """Its own, because what fits after it differs."""
    text: str = ""
    """As it is echoed."""


@dataclass(frozen=True, slots=True)
class GrammarShape:
    """The grammar that an answer must follow, compiled."""

    address: str
    """Of the process that holds it."""
    field: str
    """Of the body, which asked for it."""


@dataclass(frozen=True, slots=True)
class GenerationCall:
    """One request of a client: each prompt is generated `n` times."""

    prompts: tuple[Prompt, ...]
    n: int = 1
    stops: tuple[str, ...] = ()
    include_stop: bool = False
    skip_special: bool = True
    markers: frozenset[int] = frozenset()
    """Control tokens that are told all the same, to whoever tells the answer's parts apart by them."""
    shape: GrammarShape | None = None
    priority: int = 0
    tenant: str = ""
    salt: str = ""
    timeout_seconds: float | None = None

    @property
    def choices(self) -> int:
        """How many answers it gets; answer `i` is choice `i % n` of prompt `i // n`."""
        return len(self.prompts) * self.n
