"""Rendering of messages by the chat template, and their token ids; both run off the event loop."""

from collections.abc import Iterator, Sequence
from typing import Any

from pydantic_core import from_json, to_json

from penstock_runtime.errors import BadInput, shown
from penstock_runtime.protocols.openai.wire.chat import ContentPart, Message, TemplateOptions
from penstock_runtime.serving.generation.loaded_model import Serving
from penstock_runtime.text.bounds import text_bytes
from penstock_runtime.text.chat_template import TemplateRejected
from penstock_runtime.text.encoding import TextEncoder

TEXT_FIELDS = {"text": "text", "input_text": "text", "output_text": "text", "refusal": "refusal"}
"""The field with the text of a content part, by the type of the part."""


async def render(
    serving: Serving,
    messages: Sequence[Message],
    options: TemplateOptions,
    tools: Sequence[dict[str, Any]],
) -> tuple[str, list[int]]:
    """Return a conversation with `tools` as the model's template renders it, and its token ids.

    Raises:
        BadInput: the model has no template, or the template rejects the messages, or they have content other than text,
            or what the template renders is too long.
        MemoryFull: rendering or encoding the prompt would take more memory than is free.
    """
    template = serving.tokenizer.template(tools=bool(tools))
    if template is None:
        raise BadInput(
            "this model has no chat template: use /v1/completions, or save the model with one",
            field="messages",
        )

    more = options.template_arguments

    def pieces() -> Iterator[str]:
        plain = [plain_message(message, index) for index, message in enumerate(messages)]
        _check_sizes(serving.encoder, plain, tools, more)
        yield from template.pieces(
            plain, tools=tools, add_generation_prompt=options.add_generation_prompt, more=more
        )

    try:
        text = await serving.encoder.collect(pieces(), "messages")
    except TemplateRejected as error:
        raise BadInput(str(error), field="messages") from error
    special = bool(options.add_special_tokens)
    return text, await serving.encoder.encode(text, "messages", add_special=special)


def _check_sizes(
    encoder: TextEncoder,
    messages: Sequence[dict[str, Any]],
    tools: Sequence[dict[str, Any]],
    more: dict[str, Any],
) -> None:
    """Check what a template may read again and again before it renders anything. Raises `ContextExceeded`."""
    encoder.check_bytes(len(to_json(tools)), "tools")
    encoder.check_bytes(len(to_json(more)), "chat_template_kwargs")
    calls = [message["tool_calls"] for message in messages if "tool_calls" in message]
    texts = sum(text_bytes(message["content"]) for message in messages)
    encoder.check_bytes(texts + len(to_json(calls)), "messages")


def plain_message(message: Message, place: int) -> dict[str, Any]:
    """Return a message in the form that templates expect: text instead of parts, arguments as objects.

    Raises:
        BadInput: a part is not text, or the arguments of a call are not JSON.
    """
    plain = message.model_dump(exclude_none=True, exclude={"content", "tool_calls"})
    if message.reasoning is not None:
        plain.setdefault("reasoning_content", message.reasoning)
    plain["content"] = _text(message.content, f"messages.{place}.content")
    if message.tool_calls:
        plain["tool_calls"] = [
            {
                "id": call.id,
                "type": call.type,
                "function": {
                    "name": call.function.name,
                    "arguments": _arguments(
                        call.function.arguments, f"messages.{place}.tool_calls.{at}"
                    ),
                },
            }
            for at, call in enumerate(message.tool_calls)
        ]
    return plain


def _text(content: str | list[ContentPart] | None, field: str) -> str:
    if content is None or isinstance(content, str):
        return content or ""
    return "\n".join(_part(part, f"{field}.{at}") for at, part in enumerate(content))


def _part(part: ContentPart, field: str) -> str:
    name = TEXT_FIELDS.get(part.type)
    if name is None:
        raise BadInput(
            f"`{field}` has type {shown(part.type, 40)}, but this model accepts text only",
            field=f"{field}.type",
        )
    text: str | None = getattr(part, name)
    if text is None:
        raise BadInput(f"`{field}.{name}` is missing", field=f"{field}.{name}")
    return text


def _arguments(given: str | dict[str, Any] | None, field: str) -> dict[str, Any]:
    if isinstance(given, dict):
        return given
    try:
        arguments = from_json(given or "{}")
    except ValueError as error:
        raise BadInput(
            f"`{field}.function.arguments` is not valid JSON: {error}",
            field=f"{field}.function.arguments",
        ) from error
    return arguments if isinstance(arguments, dict) else {"value": arguments}
