"""How many bytes of text a context may have: what has more is refused before it is tokenised."""

from typing import Final

from penstock_runtime.errors import ContextExceeded

BYTES_PER_TOKEN: Final = 16
"""UTF-8 bytes of text read for each token of the context. Prose and code have 3 to 6. The longest token is no measure: the
vocabularies of Llama 3, Qwen and GPT-2 have runs of 128 spaces, by which 8 MiB of text may fit 64 Ki tokens."""
SPARE_BYTES: Final = 4096
"""Bytes read beyond that: a short text may be one of those runs."""


def text_bytes(text: str) -> int:
    """Return the bytes of `text` in UTF-8."""
    return len(text) if text.isascii() else len(text.encode())


def max_text_bytes(context_tokens: int) -> int:
    """Return the most bytes of one text for a model of so many tokens."""
    return context_tokens * BYTES_PER_TOKEN + SPARE_BYTES


def check_text_bytes(size: int, context_tokens: int, field: str) -> None:
    """Check that a text of `size` bytes may be tokenised.

    Raises:
        ContextExceeded: it cannot fit the context.
    """
    bound = max_text_bytes(context_tokens)
    if size > bound:
        raise ContextExceeded(
            f"`{field}` has {size} bytes of text, more than the {bound} that are read: this model's maximum context length"
            f" is {context_tokens} tokens: shorten it",
            field=field,
        )
