"""The length limit of generation: rejects a request that can never fit, with the number that it exceeds."""

from penstock_runtime.engine.continuous.limits import GenerationInfo
from penstock_runtime.errors import BadInput, ContextExceeded


def max_sequence_tokens(info: GenerationInfo) -> int:
    """Return how many tokens, prompt and answer, one sequence can have in an otherwise empty cache."""
    return min(info.max_model_len, info.kv.tokens)


def grant_tokens(info: GenerationInfo, prompt_tokens: int, max_tokens: int | None) -> int:
    """Return how many tokens may be generated after the prompt; with `max_tokens` None, all that fit.

    Raises:
        BadInput: no token fits after the prompt, or `max_tokens` is more than fits.
    """
    bound = max_sequence_tokens(info)
    room = bound - prompt_tokens
    if prompt_tokens < 1:
        raise BadInput("the prompt must have at least 1 token, got 0", field="prompt")
    if room < 1:
        raise ContextExceeded(
            f"this model's maximum context length is {bound} tokens, prompt and answer together, but the"
            f" prompt has {prompt_tokens} tokens: shorten it to at most {bound - 1}",
            field="prompt",
        )
    if max_tokens is not None and max_tokens > room:
        raise ContextExceeded(
            f"this model's maximum context length is {bound} tokens: max_tokens must be at most {room} after"
            f" a prompt of {prompt_tokens} tokens, got {max_tokens}",
            field="max_tokens",
        )
    return room if max_tokens is None else max_tokens
