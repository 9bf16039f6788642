"""The demonstration model's training text (corpus.txt), its chat template and its special tokens."""

from dataclasses import dataclass
from pathlib import Path
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
        """Return the turn as the chat template renders it, with the end of the answer."""
        return f"{USER}{self.question}{END}{ASSISTANT}{self.answer}{END}"


def exchanges() -> list[DialogueTurn]:
    """Return all questions and answers of the corpus."""
    lines = Path(__file__).with_name("corpus.txt").read_text(encoding="utf-8").splitlines()
    questions = [line.removeprefix("Q: ") for line in lines if line.startswith("Q: ")]
    answers = [line.removeprefix("A: ") for line in lines if line.startswith("A: ")]
    return [DialogueTurn(*pair) for pair in zip(questions, answers, strict=True)]
