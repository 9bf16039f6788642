"""From a body's options to sampling parameters, judged against the model and the caller's key."""

from collections.abc import Iterable
from contextlib import ExitStack
from dataclasses import dataclass, field, replace
from typing import Final

from aiohttp import web

from penstock_runtime.engine.continuous.length_limit import grant
from penstock_runtime.engine.continuous.sampling_params import SamplingParams
from penstock_runtime.errors import BadInput
from penstock_runtime.protocols.common.headers import header_seconds
from penstock_runtime.protocols.openai.wire.options import GenerationOptions
from penstock_runtime.serving.auth.callers import Caller
from penstock_runtime.serving.generation.loaded_model import Serving
from penstock_runtime.serving.generation.request import GenerationCall, Prompt
from penstock_runtime.serving.generation.response_stream import draw_seed

MAX_RETURNED: Final = 2**20
"""Tokens and log-probabilities of prompts in one answer: up to 80 bytes of JSON each, and written in a second."""
_SEEDS: Final = 2**63


@dataclass(frozen=True, slots=True)
class Terms:
    """By what a body is judged."""

    serving: Serving
    caller: Caller
    timeout_seconds: float | None = None
    max_run_seconds: float | None = None
    """The pod's bound of one answer."""
    held: ExitStack = field(default_factory=ExitStack)
    """Closed when the request is answered: what it holds until then."""


@dataclass(frozen=True, slots=True)
class SamplingRequest:
    """What a body asks for in words of its own protocol."""

    max_tokens: int | None
    max_tokens_field: str = "max_tokens"
    default_tokens: int | None = None
    """Where the body does not say; None: all that fits."""
    logprobs: int | None = None
    prompt_logprobs: int | None = None
    prompt_field: str = "prompt"


def sampling(body: GenerationOptions, terms: Terms, asked: SamplingRequest) -> SamplingParams:
    """Return the parameters, but for what each prompt has its own: `max_tokens` is what was asked for, or 1, `seed` the client's.

    Raises:
        BadInput: a token id is not in the vocabulary, the key grants fewer tokens, or two fields contradict.
    """
    serving, caller = terms.serving, terms.caller
    size = serving.info.vocabulary
    _check_ids(body.stop_token_ids or (), size, "stop_token_ids")
    _check_ids((body.logit_bias or {}), size, "logit_bias")
    if caller.max_tokens is not None and (asked.max_tokens or 0) > caller.max_tokens:
        raise BadInput(
            f"`{asked.max_tokens_field}` must be at most {caller.max_tokens} with this API key,"
            f" got {asked.max_tokens}",
            field=asked.max_tokens_field,
        )
    if body.prompt_logprobs is not None and body.stream:
        raise BadInput(
            "`prompt_logprobs` are told in a whole answer: leave `stream` out",
            field="prompt_logprobs",
        )
    own_ends = frozenset[int]() if body.ignore_eos else serving.own_ends
    return SamplingParams(
        max_tokens=asked.max_tokens or 1,
        min_tokens=body.min_tokens or 0,
        temperature=_or(body.temperature, 1.0),
        top_p=_or(body.top_p, 1.0),
        top_k=max(body.top_k or 0, 0),
        min_p=_or(body.min_p, 0.0),
        repetition_penalty=_or(body.repetition_penalty, 1.0),
        presence_penalty=_or(body.presence_penalty, 0.0),
        frequency_penalty=_or(body.frequency_penalty, 0.0),
        logit_bias=tuple(sorted((body.logit_bias or {}).items())),
        seed=None if body.seed is None else body.seed % _SEEDS,
        max_run_seconds=terms.max_run_seconds,
        stop_ids=own_ends | frozenset(body.stop_token_ids or ()),
        logprobs=asked.logprobs,
        prompt_logprobs=asked.prompt_logprobs,
    )


def make_prompt(
    ids: list[int], text: str, params: SamplingParams, terms: Terms, asked: SamplingRequest
) -> Prompt:
    """Return a prompt with as many tokens granted as were asked for and fit, and a seed, its own if the client gave none.

    Raises:
        BadInput: it does not fit, or holds an id that is not in the vocabulary.
    """
    serving, caller = terms.serving, terms.caller
    _check_ids(ids, serving.info.vocabulary, asked.prompt_field)
    try:
        room = grant(serving.info, len(ids), asked.max_tokens)
    except BadInput as refused:
        named = {"prompt": asked.prompt_field, "max_tokens": asked.max_tokens_field}
        refused.field = named.get(refused.field or "", refused.field)
        raise
    if asked.max_tokens is None:
        room = min(room, asked.default_tokens or room, caller.max_tokens or room)
    if params.min_tokens > room:
        raise BadInput(
            f"`min_tokens` must be at most the {room} tokens that may be generated,"
            f" got {params.min_tokens}",
            field="min_tokens",
        )
    seed = draw_seed() if params.seed is None else params.seed
    return Prompt(tuple(ids), replace(params, max_tokens=room, seed=seed), text)


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
    """Check that the answer returns no more values of prompts than are written while others are served.

    Raises:
        BadInput: it would.
    """
    if tokens * values <= MAX_RETURNED:
        return
    raise BadInput(
        f"`{field}` means {values} values of each of {tokens} tokens of prompts (for each of `n` choices):"
        f" {tokens * values} in all, but at most {MAX_RETURNED} are returned: send fewer prompts, or want fewer"
        " alternatives or choices",
        field=field,
    )


def timeout_seconds(request: web.Request, body_seconds: float | None) -> float | None:
    """Return the shorter of the header's time and the body's.

    Raises:
        BadInput: the header is no whole number of milliseconds.
    """
    allowed = (header_seconds(request), body_seconds)
    return min((one for one in allowed if one is not None), default=None)


def _check_ids(ids: Iterable[int], size: int, field: str) -> None:
    listed = list(ids)
    if not listed or (min(listed) >= 0 and max(listed) < size):
        return
    odd = next((one for one in listed if not 0 <= one < size), None)
    if odd is not None:
        raise BadInput(
            f"`{field}` holds token {odd}, but this model's ids go from 0 to {size - 1}",
            field=field,
        )


def _or(given: float | None, default: float) -> float:
    return default if given is None else given
