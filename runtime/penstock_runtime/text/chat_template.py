"""`ChatTemplate`: renders chat messages to a prompt with the model's Jinja template, as transformers does.

The environment is that of `transformers.utils.chat_template_utils`: immutable sandbox, trimmed blocks, loop
controls, `raise_exception`, `strftime_now`, a `tojson` that escapes nothing, and the `generation` block.
Templates come from the model, messages from clients. Rendering runs in a thread.
"""

import json
from collections.abc import Callable, Iterator, Mapping, Sequence
from contextlib import suppress
from datetime import UTC, datetime
from typing import Any

from jinja2 import TemplateError, nodes
from jinja2.ext import Extension, loopcontrols
from jinja2.parser import Parser
from jinja2.sandbox import ImmutableSandboxedEnvironment

Message = Mapping[str, Any]

_PROBE: Sequence[Message] = (
    {"role": "user", "content": "a"},
    {
        "role": "assistant",
        "content": "",
        "tool_calls": [
            {"id": "123456789", "type": "function",
             "function": {"name": "probed_name", "arguments": {"a": "probed_argument"}}}
        ],
    },
)  # fmt: skip
"""Messages that show whether a template renders calls; Mistral's templates accept only ids of nine characters."""


class TemplateRejected(Exception):
    """The template rejects these messages; the text is the template's own."""


class _Generation(Extension):
    """`{% generation %}` marks assistant text for training; here it renders its body only."""

    tags = {"generation"}  # noqa: RUF012 - as jinja2 declares it

    def parse(self, parser: Parser) -> nodes.Node | list[nodes.Node]:
        line = next(parser.stream).lineno
        body = parser.parse_statements(("name:endgeneration",), drop_needle=True)
        return nodes.Scope(body, lineno=line)


class ChatTemplate:
    """A compiled template. Rendering is pure except for `strftime_now`, and thread-safe."""

    def __init__(self, source: str, special: Mapping[str, str]) -> None:
        """Compile `source`; `special` are the values of `bos_token`, `eos_token` and so on.

        Raises:
            TemplateRejected: `source` is not a Jinja template.
        """
        self.source = source
        self._special = dict(special)
        try:
            self._template = _environment().from_string(source)
        except TemplateError as error:
            raise TemplateRejected(f"the model's chat template is broken: {error}") from error
        self._form = next(filter(self._renders_calls, _FORMS), _FORMS[0])

    def render(
        self,
        messages: Sequence[Message],
        *,
        tools: Sequence[Mapping[str, Any]] | None = None,
        add_generation_prompt: bool = True,
        more: Mapping[str, Any] | None = None,
    ) -> str:
        """Return the prompt.

        Raises:
            TemplateRejected: the template raised, or the messages lack what it needs.
        """
        return "".join(
            self.pieces(
                messages, tools=tools, add_generation_prompt=add_generation_prompt, more=more
            )
        )

    def pieces(
        self,
        messages: Sequence[Message],
        *,
        tools: Sequence[Mapping[str, Any]] | None = None,
        add_generation_prompt: bool = True,
        more: Mapping[str, Any] | None = None,
    ) -> Iterator[str]:
        """Yield the prompt in pieces: a template may repeat a text of the client at every message.

        Raises:
            TemplateRejected: as `render`.
        """
        variables = {
            **self._special,
            **(more or {}),
            "messages": [self._form(each) if each.get("tool_calls") else each for each in messages],
            "tools": tools or None,
            "add_generation_prompt": add_generation_prompt,
        }
        try:
            yield from self._template.generate(variables)
        except Exception as error:  # templates are untrusted code over client input
            raise TemplateRejected(
                f"the model's chat template rejects these messages: {error}"
            ) from error

    def _renders_calls(self, form: Callable[[Message], Message]) -> bool:
        self._form = form
        with suppress(TemplateRejected):
            text = self.render(_PROBE)
            return "probed_name" in text and "probed_argument" in text
        return False


def _as_given(message: Message) -> Message:
    return message


def _without_content(message: Message) -> Message:
    return {**message, "content": message.get("content") or None}


def _with_text_arguments(message: Message) -> Message:
    return {**message, "tool_calls": [_with_text(call) for call in message["tool_calls"]]}


def _with_text(call: Mapping[str, Any]) -> Mapping[str, Any]:
    function = call["function"]
    return {**call, "function": {**function, "arguments": _to_json(function["arguments"])}}


def _without_content_with_text_arguments(message: Message) -> Message:
    return _without_content(_with_text_arguments(message))


_FORMS: Sequence[Callable[[Message], Message]] = (
    _as_given,
    _without_content,
    _without_content_with_text_arguments,
    _with_text_arguments,
)
"""Forms of a message with calls; a template gets the first that it renders. Most take arguments as objects, and Qwen3's
fails without content; DeepSeek's concatenate arguments as text, and that of R1 renders no calls next to content."""


def _environment() -> ImmutableSandboxedEnvironment:
    environment = ImmutableSandboxedEnvironment(  # a prompt is not HTML
        trim_blocks=True,
        lstrip_blocks=True,
        extensions=[_Generation, loopcontrols],
        autoescape=False,
    )
    environment.filters["tojson"] = _to_json
    environment.globals["raise_exception"] = _raise
    environment.globals["strftime_now"] = _now
    return environment


def _to_json(value: Any, ensure_ascii: bool = False, **options: Any) -> str:  # noqa: FBT001, FBT002
    return json.dumps(value, ensure_ascii=ensure_ascii, **options)


def _raise(message: str) -> None:
    raise TemplateError(message)


def _now(form: str) -> str:
    return datetime.now(UTC).strftime(form)
