"""Fields that chat and plain completions share, and their limits."""

from typing import Annotated, Any, ClassVar, Literal

from pydantic import AfterValidator, BeforeValidator, Field
from typing_extensions import override

from penstock_runtime.protocols.common.headers import parse_integer
from penstock_runtime.protocols.openai.wire.base import BodyPart, GenerationBody

MAX_CHOICES = 128
MAX_STOPS = 32
MAX_STOP_CHARACTERS = 1024
MAX_BIASES = 1024
MAX_LOGPROBS = 20
MAX_TOKEN_ID = 2**31 - 1


StopString = Annotated[str, Field(max_length=MAX_STOP_CHARACTERS)]


def _no_empty_stop(stop: str | list[str] | None) -> str | list[str] | None:
    stops = [stop] if isinstance(stop, str) else stop or []
    if "" in stops:
        raise ValueError("an empty stop string would end every answer: remove it")
    return stop


def _token_id(key: object) -> object:
    token = parse_integer(key, MAX_TOKEN_ID) if isinstance(key, str) else key
    if token is None:
        raise ValueError(f"a key must be a token id in digits, up to {MAX_TOKEN_ID}")
    return token


def _null_is_false(value: object) -> object:
    return False if value is None else value


Flag = Annotated[bool, BeforeValidator(_null_is_false)]
"""A boolean that clients may send as null, as OpenAI's API and vLLM allow."""


def _few_biases(value: object) -> object:
    if isinstance(value, dict) and len(value) > MAX_BIASES:
        raise ValueError(f"at most {MAX_BIASES} tokens can have a bias")
    return value


TokenKey = Annotated[int, BeforeValidator(_token_id)]
"""A token id as the key of a JSON object, which is a string."""


class StreamOptions(BodyPart):
    """The usage in a stream."""

    include_usage: Flag = False
    continuous_usage_stats: Flag = False


class JsonSchemaFormat(BodyPart):
    """A named schema, as OpenAI wraps it."""

    name: str = "schema"
    schema_: Annotated[dict[str, Any] | bool | None, Field(alias="schema")] = None
    strict: bool | None = None


class ResponseFormat(BodyPart):
    """The format of the answer; `regex` and `grammar` (Lark) are additions to OpenAI's."""

    type: Literal["text", "json_object", "json_schema", "regex", "grammar"]
    json_schema: JsonSchemaFormat | None = None
    regex: str | None = None
    grammar: str | None = None


class StructuredOutputs(BodyPart):
    """The format of the answer in vLLM's form, with exactly one member."""

    json_: Annotated[dict[str, Any] | str | None, Field(alias="json")] = None
    regex: str | None = None
    choice: Annotated[list[str] | None, Field(min_length=1, max_length=1024)] = None
    grammar: str | None = None
    json_object: bool | None = None


class GenerationOptions(GenerationBody):
    """The options of generation and of the answer's form."""

    unsupported: ClassVar[dict[str, tuple[Any, ...]]] = {
        "best_of": (1,),
        "use_beam_search": (False,),
        "length_penalty": (1.0,),
        "early_stopping": (False,),
        "allowed_token_ids": ([],),
        "bad_words": ([],),
        "logits_processors": ([],),
        "truncate_prompt_tokens": (),
        "prompt_embeds": (),
        "kv_transfer_params": (),
        "vllm_xargs": ({},),
        "n_best": (),
        "guided_decoding_backend": (),
        "guided_whitespace_pattern": (),
        "structural_tag": (),
    }
    ignored: ClassVar[frozenset[str]] = frozenset(
        {
            "user",
            "metadata",
            "store",
            "service_tier",
            "safety_identifier",
            "prompt_cache_key",
            "prompt_cache_retention",
            "spaces_between_special_tokens",
            "request_id",
        }
    )

    model: str | None = None
    stream: Flag = False
    stream_options: StreamOptions | None = None
    n: Annotated[int | None, Field(ge=1, le=MAX_CHOICES)] = None
    max_tokens: Annotated[int | None, Field(ge=1, le=2**31)] = None
    min_tokens: Annotated[int | None, Field(ge=0, le=2**31)] = None
    temperature: Annotated[float | None, Field(ge=0, le=100, allow_inf_nan=False)] = None
    top_p: Annotated[float | None, Field(ge=0, le=1)] = None
    """0 keeps the most likely token only."""
    top_k: Annotated[int | None, Field(ge=-1, le=2**31)] = None
    """0 and -1 keep all tokens."""
    min_p: Annotated[float | None, Field(ge=0, le=1)] = None
    repetition_penalty: Annotated[float | None, Field(ge=0.01, le=10)] = None
    """The lower bound keeps a logit that is divided by it from overflowing."""
    presence_penalty: Annotated[float | None, Field(ge=-2, le=2)] = None
    frequency_penalty: Annotated[float | None, Field(ge=-2, le=2)] = None
    logit_bias: Annotated[
        dict[TokenKey, Annotated[float, Field(ge=-100, le=100)]] | None,
        BeforeValidator(_few_biases),
    ] = None
    seed: Annotated[int | None, Field(ge=-(2**63), lt=2**64)] = None
    stop: Annotated[
        StopString | Annotated[list[StopString], Field(max_length=MAX_STOPS)] | None,
        AfterValidator(_no_empty_stop),
    ] = None
    stop_token_ids: Annotated[list[int] | None, Field(max_length=1024)] = None
    include_stop_str_in_output: bool = False
    ignore_eos: bool = False
    skip_special_tokens: bool = True
    response_format: ResponseFormat | None = None
    structured_outputs: StructuredOutputs | None = None
    guided_json: dict[str, Any] | str | None = None
    guided_regex: str | None = None
    guided_choice: Annotated[list[str] | None, Field(min_length=1, max_length=1024)] = None
    guided_grammar: str | None = None
    priority: Annotated[int | None, Field(ge=0, le=2**31)] = None
    """1 is the highest, 0 is unset."""
    timeout: Annotated[float | None, Field(gt=0, le=86_400)] = None
    """Seconds from arrival to the last token."""
    return_token_ids: Flag = False
    prompt_logprobs: Annotated[int | None, Field(ge=0, le=MAX_LOGPROBS)] = None
    """The number of alternatives returned for each prompt token (vLLM's field)."""
    cache_salt: Annotated[str | None, Field(max_length=1024)] = None

    @property
    @override
    def requested_model(self) -> str | None:
        return self.model

    @property
    @override
    def requested_seconds(self) -> float | None:
        return self.timeout

    @property
    @override
    def streams(self) -> bool:
        return self.stream

    @property
    def stops(self) -> tuple[str, ...]:
        """The stop strings as a tuple."""
        return (self.stop,) if isinstance(self.stop, str) else tuple(self.stop or ())

    @property
    def choices(self) -> int:
        """The number of requested answers."""
        return self.n or 1

    @property
    def usage_in_stream(self) -> bool:
        """Whether a stream ends with its usage."""
        return self.stream_options is not None and self.stream_options.include_usage
