"""What two pods say to each other about one generation: the body of `POST /handover/v1/generations`, and its answer.

The answer is a series of frames: a length in four bytes, and the events of one turn in MessagePack. A frame without events
keeps the connection alive.
"""

from collections.abc import Sequence
from typing import Any, Final

import msgspec
from msgspec import Struct

from penstock_runtime.engine.continuous.limits import GenerationInfo
from penstock_runtime.engine.continuous.messages import FinishReason, Logprob
from penstock_runtime.serving.generation.request import GenerationCall

LENGTH_BYTES: Final = 4
MAX_FRAME_BYTES: Final = 2**24
MAX_SECONDS: Final = 86_400.0
MIN_SECONDS: Final = 0.001


class Tokens(Struct, frozen=True, array_like=True, tag="tokens"):
    """New tokens of one choice, as the engine emitted them."""

    choice: int
    tokens: tuple[int, ...]
    logprobs: tuple[Logprob, ...]


class Finished(Struct, frozen=True, array_like=True, tag="finished"):
    """One choice has all its tokens."""

    choice: int
    reason: FinishReason
    stop_id: int | None


class AllFinished(Struct, frozen=True, array_like=True, tag="completed"):
    """Every choice has finished."""


class Unfinished(Struct, frozen=True, array_like=True, tag="unfinished"):
    """This pod does not complete it; another may."""

    reason: str


class Broke(Struct, frozen=True, array_like=True, tag="failed"):
    """The model failed it, as it would elsewhere."""

    reason: str


class Unenforceable(Struct, frozen=True, array_like=True, tag="unenforceable"):
    """Its grammar exceeded a limit."""

    reason: str


class Overdue(Struct, frozen=True, array_like=True, tag="expired"):
    """Its deadline passed."""


End = AllFinished | Unfinished | Broke | Unenforceable | Overdue
WireEvent = Tokens | Finished | End

_encoder: Final = msgspec.msgpack.Encoder()
_decoder: Final = msgspec.msgpack.Decoder(list[WireEvent])


def encode_frame(events: Sequence[WireEvent]) -> bytes:
    """Return the frame with `events`."""
    payload = _encoder.encode(list(events))
    return len(payload).to_bytes(LENGTH_BYTES) + payload


def decode_events(payload: bytes) -> list[WireEvent]:
    """Return the events of a frame.

    Raises:
        msgspec.DecodeError: it is not a list of events.
    """
    return _decoder.decode(payload)


def model_identity(info: GenerationInfo) -> str:
    """Return what two pods must share to continue each other's generations: the weights, and the type they compute in."""
    return f"{info.revision}-{info.dtype}"


def continuation(
    call: GenerationCall,
    place: int,
    outputs: dict[int, list[int]],
    identity: str,
    seconds_left: float | None,
) -> dict[str, Any]:
    """Return the body that continues prompt `place` of `call`; `outputs` has the tokens of each unfinished choice.

    Every stop id is in `stop_token_ids`. Stop strings, text and usage stay with the pod that answers the client.
    """
    prompt, shape = call.prompts[place], call.shape
    params = prompt.params
    body: dict[str, Any] = {
        "identity": identity,
        "prompt": prompt.ids,
        "resumed": [{"choice": choice, "tokens": ids} for choice, ids in outputs.items()],
        "n": call.n,
        "max_tokens": params.max_tokens,
        "min_tokens": params.min_tokens,
        "temperature": params.temperature,
        "top_p": params.top_p,
        "top_k": params.top_k,
        "min_p": params.min_p,
        "repetition_penalty": params.repetition_penalty,
        "presence_penalty": params.presence_penalty,
        "frequency_penalty": params.frequency_penalty,
        "logit_bias": {str(token): bias for token, bias in params.logit_bias},
        "seed": params.seed,
        "ignore_eos": True,
        "stop_token_ids": sorted(params.stop_ids),
        "logprobs": params.logprobs,
        "priority": call.priority,
        "tenant": call.tenant,
        "cache_salt": call.salt.partition("\0")[2],
    }
    if shape is not None:
        body["grammar"] = {"kind": shape.spec.kind, "text": shape.spec.text}
    if seconds_left is not None:
        body["timeout"] = min(max(seconds_left, MIN_SECONDS), MAX_SECONDS)
    return body
