"""The text that the project ships, and how a conversation is written down for the model."""

from dataclasses import dataclass
from importlib.resources import files
from typing import Final

USER: Final = "<|user|>"
ASSISTANT: Final = "<|assistant|>"
SYSTEM: Final = "<|system|>"
END: Final = "<|end|>"
SPECIAL: Final = (END, USER, ASSISTANT, SYSTEM)

CHAT_TEMPLATE: Final = """\
{%- if tools %}<|system|>Call a tool by writing <tool_call>{"name": ..., "arguments": {...}}</tool_call>. \
Tools: {{ tools | tojson }}<|end|>{% endif -%}
{%- for message in messages -%}
{%- if message.role == 'user' or message.role == 'tool' -%}<|user|>
{%- elif message.role == 'assistant' -%}<|assistant|>
{%- else -%}<|system|>
{%- endif -%}
{{- message.content -}}
{%- for call in message.tool_calls or [] -%}
<tool_call>{{ {"name": call.function.name, "arguments": call.function.arguments} | tojson }}</tool_call>
{%- endfor -%}
<|end|>
{%- endfor -%}
{%- if add_generation_prompt -%}<|assistant|>{%- endif -%}
"""


@dataclass(frozen=True, slots=True)
class DialogueTurn:
    """A question and its answer."""

    question: str
    answer: str

    def written(self) -> str:
        """Return it as the chat template writes it, with the answer's end."""
        return f"{USER}{self.question}{END}{ASSISTANT}{self.answer}{END}"


def exchanges() -> list[DialogueTurn]:
    """Return all questions and answers of the corpus."""
    lines = files(__package__).joinpath("corpus.txt").read_text(encoding="utf-8").splitlines()
    questions = [one.removeprefix("Q: ") for one in lines if one.startswith("Q: ")]
    answers = [one.removeprefix("A: ") for one in lines if one.startswith("A: ")]
    return [DialogueTurn(*pair) for pair in zip(questions, answers, strict=True)]
