"""Conversion of a body's options to sampling parameters, checked against the model and the caller's key."""

from collections.abc import Iterable
from contextlib import ExitStack
from dataclasses import dataclass, field, replace
from typing import Final

from aiohttp import web

from penstock_runtime.engine.continuous.limits import grant_tokens
from penstock_runtime.engine.continuous.sampling_params import SamplingParams
from penstock_runtime.errors import BadInput
from penstock_runtime.protocols.common.headers import header_seconds
from penstock_runtime.protocols.openai.wire.options import GenerationOptions
from penstock_runtime.serving.auth.callers import Caller
from penstock_runtime.serving.generation.loaded_model import Serving
from penstock_runtime.serving.generation.request import GenerationCall, Prompt
from penstock_runtime.serving.generation.response_stream import draw_seed

MAX_RETURNED: Final = 2**20
"""The largest number of prompt tokens and log-probabilities in one answer: up to 80 bytes of JSON each, rendered in 1 s."""
_SEEDS: Final = 2**63


@dataclass(frozen=True, slots=True)
class Terms:
    """The conditions that a body is checked against."""

    serving: Serving
    caller: Caller
    timeout_seconds: float | None = None
    max_run_seconds: float | None = None
    """The pod's time limit of one answer."""
    resources: ExitStack = field(default_factory=ExitStack)
    """Resources of the request, released when it is answered."""


@dataclass(frozen=True, slots=True)
class SamplingRequest:
    """The options of a body whose names or defaults differ between protocols."""

    max_tokens: int | None
    max_tokens_field: str = "max_tokens"
    default_tokens: int | None = None
    """The default of `max_tokens`; None for as many as fit."""
    logprobs: int | None = None
    prompt_logprobs: int | None = None
    prompt_field: str = "prompt"


def sampling(body: GenerationOptions, terms: Terms, requested: SamplingRequest) -> SamplingParams:
    """Return the parameters that all prompts share; `max_tokens` is the requested number or 1, and `seed` is the client's.

    Raises:
        BadInput: a token id is not in the vocabulary, the key grants fewer tokens, or two fields contradict each other.
    """
    serving, caller = terms.serving, terms.caller
    size = serving.info.vocabulary
    _check_ids(body.stop_token_ids or (), size, "stop_token_ids")
    _check_ids((body.logit_bias or {}), size, "logit_bias")
    if caller.max_tokens is not None and (requested.max_tokens or 0) > caller.max_tokens:
        raise BadInput(
            f"`{requested.max_tokens_field}` must be at most {caller.max_tokens} with this API key,"
            f" got {requested.max_tokens}",
            field=requested.max_tokens_field,
        )
    if body.prompt_logprobs is not None and body.stream:
        raise BadInput(
            "`prompt_logprobs` is not supported in a stream: leave `stream` out",
            field="prompt_logprobs",
        )
    own_ends = frozenset[int]() if body.ignore_eos else serving.own_ends
    defaults = serving.info.sampling
    return SamplingParams(
        max_tokens=requested.max_tokens or 1,
        min_tokens=body.min_tokens or 0,
        temperature=_or(body.temperature, defaults.temperature),
        top_p=_or(body.top_p, defaults.top_p),
        top_k=max(defaults.top_k if body.top_k is None else body.top_k, 0),
        min_p=_or(body.min_p, defaults.min_p),
        repetition_penalty=_or(body.repetition_penalty, defaults.repetition_penalty),
        presence_penalty=_or(body.presence_penalty, 0.0),
        frequency_penalty=_or(body.frequency_penalty, 0.0),
        logit_bias=tuple(sorted((body.logit_bias or {}).items())),
        seed=None if body.seed is None else body.seed % _SEEDS,
        max_run_seconds=terms.max_run_seconds,
        stop_ids=own_ends | frozenset(body.stop_token_ids or ()),
        logprobs=requested.logprobs,
        prompt_logprobs=requested.prompt_logprobs,
    )


def make_prompt(
    ids: list[int], text: str, params: SamplingParams, terms: Terms, requested: SamplingRequest
) -> Prompt:
    """Return a prompt with the requested `max_tokens` as far as they fit, and a random seed unless the client sent one.

    Raises:
        BadInput: it is too long, or has an id that is not in the vocabulary.
    """
    serving, caller = terms.serving, terms.caller
    _check_ids(ids, serving.info.vocabulary, requested.prompt_field)
    try:
        max_tokens = grant_tokens(serving.info, len(ids), requested.max_tokens)
    except BadInput as error:
        names = {"prompt": requested.prompt_field, "max_tokens": requested.max_tokens_field}
        error.field = names.get(error.field or "", error.field)
        raise
    if requested.max_tokens is None:
        defaults = requested.default_tokens or max_tokens, caller.max_tokens or max_tokens
        max_tokens = min(max_tokens, *defaults)
    if params.min_tokens > max_tokens:
        raise BadInput(
            f"`min_tokens` must be at most the {max_tokens} tokens that may be generated,"
            f" got {params.min_tokens}",
            field="min_tokens",
        )
    seed = draw_seed() if params.seed is None else params.seed
    return Prompt(tuple(ids), replace(params, max_tokens=max_tokens, seed=seed), text)


def make_call(body: GenerationOptions, prompts: tuple[Prompt, ...], terms: Terms) -> GenerationCall:
    """Return the call, without a grammar."""
    caller = terms.caller
    return GenerationCall(
        prompts,
        n=body.choices,
        stops=body.stops,
        include_stop=body.include_stop_str_in_output,
        skip_special=body.skip_special_tokens,
        priority=caller.granted_priority(body.priority),
        tenant=caller.tenant,
        salt=f"{caller.tenant}\0{body.cache_salt or ''}"
        if caller.tenant or body.cache_salt
        else "",
        timeout_seconds=terms.timeout_seconds,
    )


def check_returned(tokens: int, values: int, field: str) -> None:
    """Check that rendering the values of prompts in the answer leaves time for other requests.

    Raises:
        BadInput: the values exceed MAX_RETURNED.
    """
    if tokens * values <= MAX_RETURNED:
        return
    raise BadInput(
        f"`{field}` returns {values} values for each of {tokens} prompt tokens (counted for each of `n` choices):"
        f" {tokens * values} in all, but at most {MAX_RETURNED} are returned: send fewer prompts, or request fewer"
        " alternatives or choices",
        field=field,
    )


def timeout_seconds(request: web.Request, body_seconds: float | None) -> float | None:
    """Return the shorter of the header's timeout and the body's.

    Raises:
        BadInput: the header is not an integer number of milliseconds.
    """
    allowed = (header_seconds(request), body_seconds)
    return min((seconds for seconds in allowed if seconds is not None), default=None)


def _check_ids(ids: Iterable[int], size: int, field: str) -> None:
    listed = list(ids)
    if not listed or (min(listed) >= 0 and max(listed) < size):
        return
    outside = next((token for token in listed if not 0 <= token < size), None)
    if outside is not None:
        raise BadInput(
            f"`{field}` has token {outside}, but this model's ids are 0 to {size - 1}: send ids of its tokenizer",
            field=field,
        )


def _or(given: float | None, default: float) -> float:
    return default if given is None else given
