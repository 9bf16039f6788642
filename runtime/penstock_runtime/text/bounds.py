"""Size limit of a text by the model's context length: larger texts are rejected before tokenization."""

from typing import Final

from penstock_runtime.errors import ContextExceeded

BYTES_PER_TOKEN: Final = 16
"""UTF-8 bytes of text allowed per token of the context. Prose and code have 3 to 6. The longest token is not a
usable bound: the vocabularies of Llama 3, Qwen and GPT-2 have runs of 128 spaces, so 8 MiB of text may be 64 Ki
tokens."""
SPARE_BYTES: Final = 4096
"""Additional bytes allowed: a short text may consist of those runs."""


def text_bytes(text: str) -> int:
    """Return the bytes of `text` in UTF-8."""
    return len(text) if text.isascii() else len(text.encode())


def max_text_bytes(context_tokens: int) -> int:
    """Return the size limit of one text in bytes for a context of `context_tokens`."""
    return context_tokens * BYTES_PER_TOKEN + SPARE_BYTES


def check_text_bytes(size: int, context_tokens: int, field: str) -> None:
    """Check that a text of `size` bytes may be tokenized.

    Raises:
        ContextExceeded: it cannot fit the context.
    """
    bound = max_text_bytes(context_tokens)
    if size > bound:
        raise ContextExceeded(
            f"`{field}` has {size} bytes of text, more than the maximum of {bound}: this model's maximum context length"
            f" is {context_tokens} tokens: shorten it",
            field=field,
        )
