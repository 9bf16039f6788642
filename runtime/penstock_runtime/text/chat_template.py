"""Chat messages to a prompt, by the model's own Jinja template, as transformers renders it.

The environment is that of `transformers.utils.chat_template_utils`: immutable sandbox, trimmed blocks, loop
controls, `raise_exception`, `strftime_now`, a `tojson` that escapes nothing, and the `generation` block.
A template comes with the model; messages come from clients. Rendering belongs into a thread.
"""

import json
from collections.abc import Mapping, Sequence
from datetime import UTC, datetime
from typing import Any

from jinja2 import TemplateError, nodes
from jinja2.ext import Extension, loopcontrols
from jinja2.parser import Parser
from jinja2.sandbox import ImmutableSandboxedEnvironment

Message = Mapping[str, Any]


class TemplateRefused(Exception):
    """The template does not take these messages; the message is the template's own."""


class _Generation(Extension):
    """`{% generation %}` marks what a model says, for training; here it only shows its body."""

    tags = {"generation"}  # noqa: RUF012 - as jinja2 declares it

    def parse(self, parser: Parser) -> nodes.Node | list[nodes.Node]:
        line = next(parser.stream).lineno
        body = parser.parse_statements(("name:endgeneration",), drop_needle=True)
        return nodes.Scope(body, lineno=line)


class ChatTemplate:
    """A compiled template. Rendering is pure but for `strftime_now`, and safe in any thread."""

    def __init__(self, source: str, special: Mapping[str, str]) -> None:
        """Compile `source`; `special` is what it may call `bos_token`, `eos_token` and so on.

        Raises:
            TemplateRefused: it is no Jinja template.
        """
        self.source = source
        self._special = dict(special)
        try:
            self._template = _environment().from_string(source)
        except TemplateError as error:
            raise TemplateRefused(f"the model's chat template is broken: {error}") from error

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
            TemplateRefused: the template raised, or the messages lack what it needs.
        """
        given = {
            **self._special,
            **(more or {}),
            "messages": messages,
            "tools": tools or None,
            "add_generation_prompt": add_generation_prompt,
        }
        try:
            return self._template.render(given)
        except Exception as error:  # a template is the model's own program, over what clients send
            raise TemplateRefused(
                f"the model's chat template refuses these messages: {error}"
            ) from error


def _environment() -> ImmutableSandboxedEnvironment:
    made = ImmutableSandboxedEnvironment(  # a prompt is no HTML page
        trim_blocks=True,
        lstrip_blocks=True,
        extensions=[_Generation, loopcontrols],
        autoescape=False,
    )
    made.filters["tojson"] = _to_json
    made.globals["raise_exception"] = _raise
    made.globals["strftime_now"] = _now
    return made


def _to_json(value: Any, ensure_ascii: bool = False, **options: Any) -> str:  # noqa: FBT001, FBT002
    return json.dumps(value, ensure_ascii=ensure_ascii, **options)


def _raise(message: str) -> None:
    raise TemplateError(message)


def _now(form: str) -> str:
    return datetime.now(UTC).strftime(form)
