"""Deltas of one chat choice: splits the generated text into reasoning, content and tool calls."""

from dataclasses import dataclass, field
from typing import Any

from penstock_runtime.protocols.openai.chat.tools import Toolbox
from penstock_runtime.text.reasoning import ReasoningSplitter
from penstock_runtime.text.tool_calls import (
    Arguments,
    CallBegun,
    Content,
    ToolCallEvent,
    ToolCallParser,
)

Delta = dict[str, Any]


@dataclass(slots=True)
class ChatDeltaBuilder:
    """Builds the deltas of one choice from its text."""

    toolbox: Toolbox
    splitter: ReasoningSplitter | None
    parser: ToolCallParser | None = field(init=False)
    calls: int = 0
    surplus: bool = False
    """Whether the last tool call exceeds the one that the client allows."""

    def __post_init__(self) -> None:
        """Set up the parser where the request allows tool calls."""
        call_format = self.toolbox.call_format
        self.parser = ToolCallParser(call_format) if call_format is not None else None

    def push(self, text: str, *, last: bool) -> list[Delta]:
        """Return the deltas that `text` adds; `last` marks the end of the choice."""
        if self.splitter is None:
            return self._content(text, last=last)
        thought = self.splitter.add(text) if text else None
        rest = self.splitter.finish() if last else None
        reasoning = (thought.reasoning if thought else "") + (rest.reasoning if rest else "")
        content = (thought.content if thought else "") + (rest.content if rest else "")
        deltas = [_reasoning(reasoning)] if reasoning else []
        return deltas + self._content(content, last=last)

    def finish_reason(self, reason: str) -> str:
        """Return OpenAI's finish reason of the choice."""
        called = self.calls and self.toolbox.named is None
        return "tool_calls" if called and reason == "stop" else reason

    def _content(self, text: str, *, last: bool) -> list[Delta]:
        if self.toolbox.named is not None:
            return self._named(text)
        if self.parser is None:
            return [{"content": text}] if text else []
        parts = self.parser.add(text) + (self.parser.finish() if last else [])
        return [self._delta(part) for part in parts if self._is_allowed(part)]

    def _is_allowed(self, part: ToolCallEvent) -> bool:
        if isinstance(part, CallBegun):
            self.surplus = self.toolbox.single and self.calls > 0
        return isinstance(part, Content) or not self.surplus

    def _named(self, text: str) -> list[Delta]:
        """Return text of an answer that consists of the arguments of one function."""
        if not text:
            return []
        begun = [] if self.calls else [self._delta(CallBegun(self.toolbox.named or ""))]
        return [*begun, self._delta(Arguments(text))]

    def _delta(self, part: ToolCallEvent) -> Delta:
        match part:
            case Content(text=text):
                return {"content": text}
            case CallBegun(name=name):
                self.calls += 1
                call = {
                    "index": self.calls - 1,
                    "id": self.toolbox.new_id(),
                    "type": "function",
                    "function": {"name": name, "arguments": ""},
                }
                return {"tool_calls": [call]}
            case Arguments(text=text):
                more = {"index": self.calls - 1, "function": {"arguments": text}}
                return {"tool_calls": [more]}


def _reasoning(text: str) -> Delta:
    """Return reasoning by its name in vLLM, and by the earlier one, which more clients read."""
    return {"reasoning": text, "reasoning_content": text}


@dataclass(slots=True)
class AssembledMessage:
    """A whole message, assembled from the deltas of one choice."""

    content: str = ""
    reasoning: str = ""
    tool_calls: list[dict[str, Any]] = field(default_factory=list)

    def add(self, delta: Delta) -> None:
        """Append one delta."""
        self.content += delta.get("content", "")
        self.reasoning += delta.get("reasoning", "")
        for part in delta.get("tool_calls", ()):
            if "id" in part:
                whole = {key: value for key, value in part.items() if key != "index"}
                self.tool_calls.append(whole)
            else:
                function = self.tool_calls[part["index"]]["function"]
                function["arguments"] += part["function"]["arguments"]

    def render(self) -> dict[str, Any]:
        """Return the message of a whole answer."""
        called = bool(self.tool_calls)
        return {
            "role": "assistant",
            "content": self.content or (None if called or self.reasoning else ""),
            "refusal": None,
            **(_reasoning(self.reasoning) if self.reasoning else {}),
            **({"tool_calls": self.tool_calls} if called else {}),
        }
