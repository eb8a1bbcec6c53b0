"""Payloads that handlers may change, and the changes that they may return.

Field names are OpenClaw's in snake case. Every field of a record is given by name, and a new field
gets a default, so that existing plugins keep working. Handlers must not modify a payload; they
return a change.

Records of hooks are msgspec structs: thirty dataclasses cost 20 ms of CPU at each start.
"""

from collections.abc import Mapping
from typing import Any, Self

from msgspec import Struct
from msgspec.structs import replace

from skerry.hooks.events import RunContext
from skerry.model.message import AssistantMessage, Message, ToolResultMessage, Usage


class Payload(Struct, frozen=True, kw_only=True):
    """Base of the payload of every hook whose handlers may change it."""

    context: RunContext

    @property
    def closed(self) -> bool:
        """Returns whether no further handler is called."""
        return False


class ModelResolve(Payload, frozen=True, kw_only=True):
    """Choice of the model that answers a prompt."""

    prompt: str
    provider_override: str | None = None
    model_override: str | None = None

    def merged(self, change: "ModelResolveChange") -> Self:
        """Takes the values that no handler with a higher priority has set."""
        return replace(
            self,
            provider_override=_first(self.provider_override, change.provider_override),
            model_override=_first(self.model_override, change.model_override),
        )


class ModelResolveChange(Struct, frozen=True, kw_only=True):
    """Another model. If two handlers name a model, the handler with the higher priority wins."""

    provider_override: str | None = None
    model_override: str | None = None
    """The model's id at the provider."""


class PromptDraft(Payload, frozen=True, kw_only=True):
    """Parts of the prompt before it is built."""

    prompt: str
    """Text of the person."""
    messages: tuple[Message, ...]
    """Earlier messages, and the prompt as the last."""
    provider: str
    model: str
    compactions: int = 0
    """Number of compactions; the messages begin after the last summary."""
    context_bytes: int = 0
    """Limit on the context before the person's text, in bytes; more could displace messages."""
    system_prompt: str | None = None
    """In `before_prompt_build` the replacement set by a handler; in `before_agent_start` the whole
    prompt."""
    prepend_context: str = ""
    prepend_system_context: str = ""
    append_system_context: str = ""

    def merged(self, change: "PromptChange") -> Self:
        """Appends the contexts to the earlier ones; the last system prompt wins."""
        system = change.system_prompt
        return replace(
            self,
            system_prompt=self.system_prompt if system is None else system,
            prepend_context=joined(self.prepend_context, change.prepend_context),
            prepend_system_context=joined(
                self.prepend_system_context, change.prepend_system_context
            ),
            append_system_context=joined(self.append_system_context, change.append_system_context),
        )


class PromptChange(Struct, frozen=True, kw_only=True):
    """Additions to the prompt. Contexts of several handlers are joined in order of priority."""

    system_prompt: str | None = None
    """Replacement of the whole system prompt; the last handler's wins."""
    prepend_context: str | None = None
    """Context before the person's text, for the model only; it is not stored in the transcript."""
    prepend_system_context: str | None = None
    """Text before the system prompt."""
    append_system_context: str | None = None
    """Text after the system prompt."""


class BootstrapFile(Struct, frozen=True, kw_only=True):
    """A file of the workspace for the system prompt."""

    name: str
    """Name, such as `SOUL.md`; its heading in the prompt."""
    text: str


class BootstrapDraft(Payload, frozen=True, kw_only=True):
    """The files of the workspace for the system prompt of a run."""

    files: tuple[BootstrapFile, ...]
    """Whole files in their order; text that is too long for a prompt is cut after this hook."""

    def merged(self, change: "BootstrapChange") -> Self:
        """Takes the list of the last handler."""
        return self if change.files is None else replace(self, files=change.files)


class BootstrapChange(Struct, frozen=True, kw_only=True):
    """Another list of files. A list that differs from run to run misses the provider's cache."""

    files: tuple[BootstrapFile, ...] | None = None
    """Replacement of the list; None keeps it."""


class LlmInput(Payload, frozen=True, kw_only=True):
    """A model call that is about to be made."""

    provider: str
    model: str
    system_prompt: str
    prompt: str
    """Last text of the person."""
    history_messages: tuple[Message, ...]
    """All messages of the call, with the prompt and the results of tools."""
    images_count: int = 0
    """Number of images in those messages."""

    def merged(self, change: "LlmInputChange") -> Self:
        """Takes the last system prompt."""
        system = change.system_prompt
        return self if system is None else replace(self, system_prompt=system)


class LlmInputChange(Struct, frozen=True, kw_only=True):
    """Another system prompt for this call. One that changes with each call misses the cache."""

    system_prompt: str | None = None


class LlmOutput(Payload, frozen=True, kw_only=True):
    """One response of the model, before its tool calls run."""

    provider: str
    model: str
    assistant_texts: tuple[str, ...]
    """The text of the response, without thinking; empty if the response only calls tools."""
    last_assistant: AssistantMessage
    usage: Usage

    def merged(self, change: "LlmOutputChange") -> Self:
        """Takes the message and its text."""
        message = change.message
        if message is None:
            return self
        texts = (message.text,) if message.text else ()
        return replace(self, last_assistant=message, assistant_texts=texts)


class LlmOutputChange(Struct, frozen=True, kw_only=True):
    """Another message in place of the response; its tool calls are executed."""

    message: AssistantMessage | None = None


class BeforeToolCall(Payload, frozen=True, kw_only=True):
    """A tool call that is about to run."""

    tool_name: str
    tool_call_id: str
    params: Mapping[str, Any]
    block_reason: str | None = None
    """Text for the model if the call is blocked, else None."""

    @property
    def closed(self) -> bool:
        """Returns whether the call is blocked, which is final."""
        return self.block_reason is not None

    def refused(self, reason: str) -> Self:
        """Returns the call as blocked."""
        return replace(self, block_reason=reason)

    def merged(self, change: "BeforeToolCallChange") -> Self:
        """Overrides the parameters that the change names."""
        params = self.params if change.params is None else {**self.params, **change.params}
        reason = (change.block_reason or BLOCKED) if change.block else None
        return replace(self, params=params, block_reason=reason)


BLOCKED = "Tool call blocked by plugin hook"
"""Text for the model when a handler gives no reason; OpenClaw's words."""


class BeforeToolCallChange(Struct, frozen=True, kw_only=True):
    """Other parameters, or a refusal."""

    params: dict[str, Any] | None = None
    """New values by name; the model's other parameters stay."""
    block: bool = False
    """Prevents the tool call; no further handler is called then."""
    block_reason: str = ""
    """Text for the model in place of a result."""


class ToolResultPersist(Payload, frozen=True, kw_only=True):
    """A tool's result, before it is written to the transcript."""

    tool_name: str
    tool_call_id: str
    message: ToolResultMessage
    is_synthetic: bool = False
    """True when no tool produced the result: the call was skipped or aborted."""

    def merged(self, change: "ToolResultPersistChange") -> Self:
        """Takes the message, which must answer the same call."""
        if change.message is None:
            return self
        return replace(self, message=_checked_replacement(self.message, change.message))


class ToolResultPersistChange(Struct, frozen=True, kw_only=True):
    """Result to store in the transcript instead."""

    message: ToolResultMessage | None = None


class AfterToolCall(Payload, frozen=True, kw_only=True):
    """A tool call that ended, failed or was blocked."""

    tool_name: str
    tool_call_id: str
    params: Mapping[str, Any]
    """Parameters passed to the tool."""
    result: ToolResultMessage
    duration_ms: int

    @property
    def error(self) -> str | None:
        """Returns the error text, or None."""
        if not self.result.is_error:
            return None
        return "".join(getattr(block, "text", "") for block in self.result.content)

    def merged(self, change: "AfterToolCallChange") -> Self:
        """Takes the result, which must answer the same call."""
        if change.result is None:
            return self
        return replace(self, result=_checked_replacement(self.result, change.result))


class AfterToolCallChange(Struct, frozen=True, kw_only=True):
    """Another result, for the model and for the transcript."""

    result: ToolResultMessage | None = None


class MessageSending(Payload, frozen=True, kw_only=True):
    """A block of the reply, before it is cut into parts and stored for the platform."""

    account: str
    to: str
    """The platform's id of the chat."""
    content: str
    thread_id: str | None = None
    in_reply_to: str = ""
    """The platform's id of the answered message."""
    cancel_reason: str | None = None
    """Reason for the log if the block is not sent, else None."""

    @property
    def closed(self) -> bool:
        """Returns whether the block is cancelled, which is final."""
        return self.cancel_reason is not None

    def refused(self, reason: str) -> Self:
        """Returns the block as cancelled."""
        return replace(self, cancel_reason=reason)

    def merged(self, change: "MessageSendingChange") -> Self:
        """Takes the last content."""
        content = self.content if change.content is None else change.content
        return replace(self, content=content, cancel_reason="cancelled" if change.cancel else None)


class MessageSendingChange(Struct, frozen=True, kw_only=True):
    """Another text, or none at all."""

    content: str | None = None
    cancel: bool = False
    """Prevents the sending; no further handler is called then."""


class BeforeMessageWrite(Payload, frozen=True, kw_only=True):
    """An entry that is about to be written to the transcript."""

    message: Message
    blocked: bool = False

    @property
    def closed(self) -> bool:
        """Returns whether the entry is blocked, which is final."""
        return self.blocked

    def merged(self, change: "BeforeMessageWriteChange") -> Self:
        """Takes the message, which must have the same role and the same tool calls."""
        message = self.message
        if change.message is not None:
            message = _checked_replacement(message, change.message)
        return replace(self, message=message, blocked=change.block)


class BeforeMessageWriteChange(Struct, frozen=True, kw_only=True):
    """Another message, or none.

    A blocked result of a tool is replaced by a placeholder, because every call needs a result. The
    results of a blocked message with tool calls are left out too.
    """

    message: Message | None = None
    block: bool = False
    """Keeps the message out of the transcript; no further handler is called then."""


def joined(first: str, second: str | None) -> str:
    """Returns both texts with an empty line between them, or the text that is not empty."""
    return f"{first}\n\n{second}" if first and second else first or second or ""


def _first(first: str | None, second: str | None) -> str | None:
    return second if first is None else first


def _checked_replacement(old: Message, new: Message) -> Any:
    """Returns `new`. Raises ValueError if it cannot replace `old` in a conversation."""
    if type(new) is not type(old) or _pairs(new) != _pairs(old):
        raise ValueError(
            "the message differs in its role or its tool calls from the message it replaces"
        )
    return new


def _pairs(message: Message) -> tuple[str, ...]:
    match message:
        case AssistantMessage():
            return tuple(call.id for call in message.tool_calls)
        case ToolResultMessage():
            return (message.tool_call_id,)
    return ()
