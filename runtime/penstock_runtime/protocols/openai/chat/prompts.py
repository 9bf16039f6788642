"""Rendering of messages by the chat template, and their token ids; both run off the event loop."""

import asyncio
from collections.abc import Sequence
from typing import Any

from pydantic_core import from_json

from penstock_runtime.errors import BadInput, shown
from penstock_runtime.protocols.openai.wire.chat import ContentPart, Message
from penstock_runtime.serving.generation.loaded_model import Serving
from penstock_runtime.text.chat_template import TemplateRejected


async def render(
    serving: Serving,
    messages: Sequence[Message],
    *,
    tools: Sequence[dict[str, Any]] = (),
    add_generation_prompt: bool = True,
    more: dict[str, Any] | None = None,
) -> tuple[str, list[int]]:
    """Return a conversation as the model's template renders it, and its token ids.

    Raises:
        BadInput: the model has no template, or the template rejects the messages, or they have content other than text,
            or they are too long.
        MemoryFull: encoding the prompt would take more memory than is free.
    """
    template = serving.tokenizer.template(tools=bool(tools))
    if template is None:
        raise BadInput(
            "this model has no chat template: use /v1/completions, or save the model with one",
            field="messages",
        )

    def work() -> str:
        plain = [plain_message(message, index) for index, message in enumerate(messages)]
        size = sum(len(message["content"].encode()) for message in plain)
        serving.encoder.check_bytes(size, "messages")
        return template.render(
            plain, tools=tools, add_generation_prompt=add_generation_prompt, more=more
        )

    try:
        text = await asyncio.to_thread(work)
    except TemplateRejected as error:
        raise BadInput(str(error), field="messages") from error
    return text, await serving.encoder.encode(text, "messages", add_special=False)


def plain_message(message: Message, place: int) -> dict[str, Any]:
    """Return a message in the form that templates expect: text instead of parts, arguments as objects.

    Raises:
        BadInput: a part is not text, or the arguments of a call are not JSON.
    """
    plain = message.model_dump(exclude_none=True, exclude={"content", "tool_calls"})
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
    for at, part in enumerate(content):
        if part.type not in ("text", "input_text", "output_text") or part.text is None:
            raise BadInput(
                f"`{field}.{at}` has type {shown(part.type, 40)}, but this model accepts text only",
                field=f"{field}.{at}.type",
            )
    return "\n".join(part.text or "" for part in content)


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
