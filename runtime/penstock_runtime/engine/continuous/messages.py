"""Messages between the HTTP side and the generation engine, in addition to those of `engine.messages`.

HTTP side to engine: `Generate`, `Stop`. Engine to HTTP side: one `Stepped` per step. Every value is picklable and
holds plain data only; what is sent for every token is a `Struct`, which pickles six times faster than a dataclass.
"""

from dataclasses import dataclass
from enum import StrEnum

from msgspec import Struct

from penstock_runtime.engine.continuous.prompt_scores import PromptScores
from penstock_runtime.engine.continuous.sampling_params import SamplingParams
from penstock_runtime.engine.continuous.service_curve import GenerationSums
from penstock_runtime.engine.messages import Cancel, Drain, SetLimits
from penstock_runtime.request import Cancelled, Expired, Failed

# -- in


class Resumption(Struct, frozen=True):
    """One unfinished choice of a request that began on another pod."""

    choice: int
    tokens: tuple[int, ...]
    """Its output so far, fed as prompt: none of it is sampled or emitted again."""


@dataclass(frozen=True, slots=True)
class Generate:
    """An admitted request. `id`, set by the HTTP side, is unique among the pending requests."""

    id: str
    prompt: tuple[int, ...]
    """At least one token; `limits.grant_tokens` has checked that it fits."""
    params: SamplingParams
    """Contains a seed; the HTTP side draws one if the client gives none."""
    arrived: float
    """Arrival, in seconds of the monotonic clock, as `deadline`."""
    n: int = 1
    deadline: float | None = None
    """Time at which the request, waiting or running, ends as Expired."""
    priority: int = 0
    tenant: str = ""
    salt: str = ""
    """Prefixes are shared only between equal salts: the tenant, unless the pool shares across tenants."""
    grammar: str | None = None
    """Address of the worker process of the compiled grammar."""
    resumed: tuple[Resumption, ...] = ()
    """The choices to continue; empty: a new request, whose `n` choices all begin."""


@dataclass(frozen=True, slots=True)
class Stop:
    """Choices whose text contains a stop string: they finish with reason STOP."""

    choices: tuple[tuple[str, int], ...]
    """Request id and choice."""


ToGeneration = Generate | Cancel | Stop | SetLimits | Drain

# -- out


class FinishReason(StrEnum):
    """Reason why a choice finished, as in the OpenAI API."""

    STOP = "stop"
    LENGTH = "length"


class Logprob(Struct, frozen=True):
    """One chosen token's log-probability and the top alternatives, best first."""

    chosen: float
    top: tuple[tuple[int, float], ...]


class TokensEmitted(Struct, frozen=True, gc=False):
    """New tokens of one choice, in order; without a stop id (`ChoiceFinished.stop_id`)."""

    id: str
    choice: int
    tokens: tuple[int, ...]
    logprobs: tuple[Logprob, ...] = ()
    """One per token, or none."""


class PromptScored(Struct, frozen=True):
    """The log-probabilities of a prompt, sent once, before the first token of a request with `prompt_logprobs`."""

    id: str
    logprobs: PromptScores
    """Scores of all prompt tokens but the first."""


class ChoiceFinished(Struct, frozen=True):
    """One choice has all its tokens; its last `TokensEmitted` came before or with it."""

    id: str
    choice: int
    reason: FinishReason
    stop_id: int | None = None
    """The stop id that was sampled; None: another reason."""


@dataclass(frozen=True, slots=True)
class Usage:
    """Resources that a request used."""

    prompt_tokens: int
    completion_tokens: int
    """Tokens of all choices, stop ids included."""
    cached_tokens: int
    """Prompt tokens that the prefix cache supplied when the request was first scheduled."""
    queue_seconds: float
    """Time from arrival to the first step."""
    preemptions: int


@dataclass(frozen=True, slots=True)
class Generated:
    """All choices have finished."""

    usage: Usage


@dataclass(frozen=True, slots=True)
class Interrupted:
    """The deadline of a drain passed; another pod can continue after the tokens emitted so far."""

    usage: Usage


GenerationEnd = Generated | Interrupted | Failed | Expired | Cancelled


class Ended(Struct, frozen=True):
    """The end of a request, which is the last event for its id."""

    id: str
    end: GenerationEnd


Event = PromptScored | TokensEmitted | ChoiceFinished | Ended


class StepReport(Struct, frozen=True):
    """One settled step."""

    prefill_tokens: int
    decode_rows: int
    kv_tokens: int
    """Positions of cached keys and values that its rows read."""
    seconds: float
    """Device time."""
    idle_seconds: float
    """Time for which the device was idle before the step although work was ready."""


class SchedulerReport(Struct, frozen=True):
    """State of the scheduler; totals count from its start."""

    waiting: int
    running: int
    running_requests: int
    """Requests with at least one running sequence; a request whose choices are all preempted waits."""
    running_batch_work: int
    """Those of `running_requests` that are batch work."""
    preempted: int
    """Waiting sequences that ran before."""
    generation: int
    """Generation of the limits of the current plan."""
    converging: bool
    """Whether more sequences run than the cap allows (`Finish`)."""
    surplus: int
    """Running sequences above the cap."""
    free_blocks: int
    cached_blocks: int
    used_blocks: int
    preemptions: int
    """Total, as the fields below."""
    recomputed_tokens: int
    swapped_blocks: int
    prefix_hit_tokens: int
    prefix_asked_tokens: int


class GenerationReport(SchedulerReport, frozen=True):
    """State of the engine after a step."""

    generated_tokens: int
    busy_seconds: float
    curve: GenerationSums
    previous_curve: GenerationSums | None


class Stepped(Struct, frozen=True):
    """The events of one step, in order; `step` is None if no step ran."""

    events: tuple[Event, ...]
    step: StepReport | None
    report: GenerationReport
