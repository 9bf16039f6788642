"""The body of `POST /v1/chat/completions`."""

from typing import Annotated, Any, ClassVar, Literal

from pydantic import Field

from penstock_runtime.protocols.openai.wire.base import BodyPart, WireBody
from penstock_runtime.protocols.openai.wire.options import MAX_LOGPROBS, GenerationOptions

MAX_TOOLS = 128


class ContentPart(BodyPart):
    """A part of a message; only text and refusals of earlier answers are supported."""

    type: str
    text: str | None = None
    refusal: str | None = None


class CalledFunction(BodyPart):
    """The function of a call in an earlier answer."""

    name: str
    arguments: str | dict[str, Any] | None = None


class CalledTool(BodyPart):
    """One call of an earlier answer."""

    id: str | None = None
    type: Literal["function"] = "function"
    function: CalledFunction


class Message(BodyPart):
    """One message of the conversation."""

    role: Annotated[str, Field(min_length=1, max_length=64)]
    content: str | Annotated[list[ContentPart], Field(fail_fast=True)] | None = None
    name: str | None = None
    tool_calls: Annotated[list[CalledTool] | None, Field(fail_fast=True)] = None
    tool_call_id: str | None = None
    reasoning: str | None = None
    reasoning_content: str | None = None
    """`reasoning` by its name in most templates and in earlier versions of vLLM."""


class Function(BodyPart):
    """A function that an answer may call."""

    name: Annotated[str, Field(min_length=1, max_length=256)]
    description: str | None = None
    parameters: dict[str, Any] | None = None
    strict: bool | None = None


class Tool(BodyPart):
    """A tool that an answer may use."""

    type: Literal["function"]
    function: Function


class NamedFunction(BodyPart):
    """The name of a function."""

    name: str


class NamedTool(BodyPart):
    """The tool that the answer must use."""

    type: Literal["function"] = "function"
    function: NamedFunction


class TemplateOptions(WireBody):
    """The options of the chat template, of a chat and of its tokens."""

    unsupported: ClassVar[dict[str, tuple[Any, ...]]] = {
        "documents": ([],),
        "chat_template": (),
        "mm_processor_kwargs": (),
        "continue_final_message": (False,),
    }

    tools: Annotated[list[Tool] | None, Field(max_length=MAX_TOOLS, fail_fast=True)] = None
    reasoning_effort: str | None = None
    """Passed to the model's template, which may use it."""
    add_generation_prompt: bool = True
    add_special_tokens: bool | None = None
    """Whether the tokenizer adds its special tokens; if unset, to a text only: a template has its own."""
    chat_template_kwargs: dict[str, Any] | None = None

    @property
    def tool_objects(self) -> tuple[dict[str, Any], ...]:
        """The tools as templates expect them."""
        return tuple(tool.model_dump(exclude_none=True) for tool in self.tools or ())

    @property
    def template_arguments(self) -> dict[str, Any]:
        """The variables of the template that clients may set."""
        effort = {"reasoning_effort": self.reasoning_effort} if self.reasoning_effort else {}
        return {**effort, **(self.chat_template_kwargs or {})}


class ChatBody(TemplateOptions, GenerationOptions):
    """A conversation whose next message is requested."""

    unsupported: ClassVar[dict[str, tuple[Any, ...]]] = {
        **GenerationOptions.unsupported,
        **TemplateOptions.unsupported,
        "functions": ([],),
        "function_call": ("none",),
        "modalities": (["text"],),
        "audio": (),
        "prediction": (),
        "web_search_options": (),
        "verbosity": ("medium",),
        "echo": (False,),
    }

    messages: Annotated[list[Message], Field(min_length=1, max_length=8192, fail_fast=True)]
    max_completion_tokens: Annotated[int | None, Field(ge=1, le=2**31)] = None
    logprobs: bool | None = None
    top_logprobs: Annotated[int | None, Field(ge=0, le=MAX_LOGPROBS)] = None
    tool_choice: Literal["none", "auto", "required"] | NamedTool | None = None
    parallel_tool_calls: bool | None = None
    include_reasoning: bool = True
