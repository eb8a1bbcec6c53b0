"""The hooks of one run, from the choice of its model to the entries of its transcript.

Without handlers each step costs the test of an empty tuple. The hooks for a response or a tool's
result, which must not be lost, are shielded from an abort, which then waits for at most their time
limit. Every call keeps its result in the transcript: a blocked result is replaced by a placeholder,
and the results of a blocked message with tool calls are left out too.
"""

import copy
import logging
from collections.abc import Awaitable, Callable, Sequence
from typing import Final, TypeVar

import anyio
import msgspec
from msgspec import Struct, field
from msgspec.structs import replace

from skerry.hooks.events import RunContext
from skerry.hooks.hooks import Hooks
from skerry.hooks.payloads import (
    AfterToolCall,
    BeforeMessageWrite,
    BeforeToolCall,
    LlmInput,
    LlmOutput,
    ModelResolve,
    PromptDraft,
    ToolResultPersist,
    joined,
)
from skerry.infra.clock import Clock
from skerry.model.errors import ModelError
from skerry.model.message import (
    CHARS_PER_TOKEN,
    AssistantMessage,
    ImageBlock,
    Message,
    TextBlock,
    ToolCall,
    ToolResultMessage,
    UserMessage,
)
from skerry.model.origin import Origin
from skerry.ports.model import ModelInfo, Models

M = TypeVar("M", bound=Message)
WITHHELD: Final = "The result was withheld from the transcript."


class TranscriptHooks(Struct):
    """Calls the hooks for each transcript entry of one run."""

    hooks: Hooks
    changed: bool = False
    """True if the transcript differs from the messages."""
    _results: dict[str, tuple[ToolResultMessage, ToolResultMessage]] = field(default_factory=dict)
    """By call id: a result passed to `tool_result_persist`, and its entry in the transcript."""
    _dropped: frozenset[str] = frozenset()
    """Ids of the calls in the last response, if it was blocked."""

    async def entries(self, messages: Sequence[Message], context: RunContext) -> Sequence[Message]:
        """Returns the entries to write for `messages`."""
        persist, write = self.hooks.tool_result_persist, self.hooks.before_message_write
        if not (write.handlers or persist.handlers or self._results or self._dropped):
            return messages
        entries: list[Message] = []
        for message in messages:
            entry = await self._entry(message, context)
            if entry is not None:
                entries.append(entry)
            self.changed |= entry is not message
        return entries

    async def persist(
        self, result: ToolResultMessage, context: RunContext, *, synthetic: bool = False
    ) -> ToolResultMessage:
        """Returns the result for the transcript."""
        point = self.hooks.tool_result_persist
        if not point.handlers:
            return result
        draft = ToolResultPersist(
            context=context,
            tool_name=result.tool_name,
            tool_call_id=result.tool_call_id,
            message=result,
            is_synthetic=synthetic,
        )
        return marked((await point.run(draft)).message, result)

    def keep(self, result: ToolResultMessage, stored: ToolResultMessage) -> None:
        """Remembers the transcript's version of a result until it is written."""
        if self.hooks.tool_result_persist.handlers:
            self._results[result.tool_call_id] = result, stored

    async def _entry(self, message: Message, context: RunContext) -> Message | None:
        if isinstance(message, ToolResultMessage):
            if message.tool_call_id in self._dropped:
                return None
            result, stored = self._results.get(message.tool_call_id, (None, message))
            if result is not message:  # models give one id to several calls
                stored = await self.persist(message, context, synthetic=True)
            message = stored
        blocked = False
        if self.hooks.before_message_write.handlers:
            draft = BeforeMessageWrite(context=context, message=message)
            draft = await self.hooks.before_message_write.run(draft)
            message, blocked = marked(draft.message, message), draft.blocked
        match message:
            case AssistantMessage():
                calls = (call.id for call in message.tool_calls)
                self._dropped = frozenset(calls) if blocked else frozenset()
            case ToolResultMessage() if blocked:
                withheld = (TextBlock(WITHHELD),)
                return msgspec.structs.replace(
                    message, content=withheld, origin=Origin.PLUGIN, details=None
                )
        return None if blocked else message


def marked(entry: M, original: M) -> M:
    """Returns the entry; one that differs from the original gets the origin of a plugin."""
    if entry is original or entry == original:
        return original
    return msgspec.structs.replace(entry, origin=Origin.PLUGIN)


logger = logging.getLogger(__name__)

MAX_CONTEXT: Final = 16_384
"""Limit on the context before the person's text, in bytes, for any window."""
CONTEXT_SHARE: Final = 16
"""Divisor: at most this part of the window may be context."""
Execute = Callable[[ToolCall], Awaitable[ToolResultMessage]]


class RunHooks(Struct, frozen=True):
    """Calls the hooks at each step of one run."""

    hooks: Hooks
    context: RunContext
    writing: TranscriptHooks
    clock: Clock

    async def resolve(self, prompt: str, reference: str | None, models: Models) -> str | None:
        """Returns the model to use; `reference` if a plugin names one that cannot be used."""
        point = self.hooks.before_model_resolve
        if not point.handlers:
            return reference
        resolved = await point.run(ModelResolve(context=self.context, prompt=prompt))
        resolved_reference = overridden(
            reference, resolved.provider_override, resolved.model_override
        )
        if resolved_reference == reference:
            return reference
        try:
            await models.choose(resolved_reference)
        except ModelError:
            logger.exception("model %s, named by a plugin, cannot be used", resolved_reference)
            return reference
        return resolved_reference

    async def prompt(
        self,
        prompt: UserMessage,
        built: str,
        model: ModelInfo,
        messages: Sequence[Message],
        compactions: int = 0,
    ) -> tuple[str, str]:
        """Returns the system prompt, and the context before the person's text."""
        build, start = self.hooks.before_prompt_build, self.hooks.before_agent_start
        handlers = [
            handler for handler in build.handlers if compactions or not handler.after_compaction
        ]
        if not handlers and not start.handlers:
            return built, ""
        draft = PromptDraft(
            context=self.context,
            prompt=prompt.text,
            messages=tuple(messages),
            provider=model.provider,
            model=model.id,
            compactions=compactions,
            context_bytes=context_bytes(model),
        )
        initial = draft
        draft = await build.run(draft, handlers)
        if draft is initial and not start.handlers:
            return built, ""
        draft = _assembled(draft, built)
        if start.handlers:
            draft = _assembled(await start.run(draft), built)
        return draft.system_prompt or "", draft.prepend_context

    async def llm_input(self, system: str, model: ModelInfo, messages: Sequence[Message]) -> str:
        """Returns the system prompt of this call."""
        point = self.hooks.llm_input
        if not point.handlers:
            return system
        prompts = [message for message in messages if isinstance(message, UserMessage)]
        images = sum(
            isinstance(block, ImageBlock) for message in messages for block in message.content
        )
        draft = LlmInput(
            context=self.context,
            provider=model.provider,
            model=model.id,
            system_prompt=system,
            prompt=prompts[-1].text if prompts else "",
            history_messages=tuple(messages),
            images_count=images,
        )
        return (await point.run(draft)).system_prompt

    async def llm_output(self, response: AssistantMessage) -> AssistantMessage:
        """Returns the response after the hook, which is not called for a failed model call."""
        point = self.hooks.llm_output
        if not point.handlers or response.stop_reason == "error":
            return response
        draft = LlmOutput(
            context=self.context,
            provider=response.provider,
            model=response.model,
            assistant_texts=(response.text,) if response.text else (),
            last_assistant=response,
            usage=response.usage,
        )
        with anyio.CancelScope(shield=True):
            draft = await point.run(draft)
        return marked(draft.last_assistant, response)

    async def tool(self, call: ToolCall, execute: Execute) -> ToolResultMessage:
        """Returns the result of the call for the model, or the refusal of a plugin."""
        began = self.clock.now_ms()
        refusal: str | None = None
        if self.hooks.before_tool_call.handlers:
            checked = await self.hooks.before_tool_call.run(
                BeforeToolCall(
                    context=self.context,
                    tool_name=call.name,
                    tool_call_id=call.id,
                    params=copy.deepcopy(call.arguments),
                )
            )
            call = replace(call, arguments=dict(checked.params))
            refusal = checked.block_reason
        if refusal is None:
            result = await execute(call)
        else:
            logger.warning("tool %s was blocked: %s", call.name, refusal)
            content = (TextBlock(refusal),)
            result = ToolResultMessage(
                call.id, call.name, content, is_error=True, timestamp=began, origin=Origin.PLUGIN
            )
        with anyio.CancelScope(shield=True):
            stored = await self.writing.persist(result, self.context)
            final = await self._after(call, result, self.clock.now_ms() - began)
        # A replaced result counts for the transcript too: else removed text would be stored.
        self.writing.keep(final, stored if final is result else final)
        return final

    async def late(
        self, call: ToolCall, result: ToolResultMessage, duration: int
    ) -> ToolResultMessage:
        """Returns the result, for the model, of a call that ended after its run."""
        with anyio.CancelScope(shield=True):
            stored = await self.writing.persist(result, self.context)
            final = await self._after(call, result, duration)
        return stored if final is result else final

    async def _after(
        self, call: ToolCall, result: ToolResultMessage, duration: int
    ) -> ToolResultMessage:
        point = self.hooks.after_tool_call
        if not point.handlers:
            return result
        draft = AfterToolCall(
            context=self.context,
            tool_name=call.name,
            tool_call_id=call.id,
            params=call.arguments,
            result=result,
            duration_ms=max(duration, 0),
        )
        return marked((await point.run(draft)).result, result)


def overridden(reference: str | None, provider: str | None, model: str | None) -> str | None:
    """Returns `reference` (`provider/model`) with the parts replaced that a plugin named."""
    default_provider, _, default_model = (reference or "").partition("/")
    provider, model = provider or default_provider, model or default_model
    if not model:
        return reference
    return f"{provider}/{model}" if provider else model


def context_bytes(model: ModelInfo) -> int:
    """Returns the limit, in bytes, on the context before the person's text."""
    if model.prompt_limit is not None:
        return 0
    return min(MAX_CONTEXT, model.context_window * CHARS_PER_TOKEN // CONTEXT_SHARE)


def with_context(prompt: UserMessage, context: str) -> UserMessage:
    """Returns the prompt with `context` before the person's text."""
    match prompt.content:
        case (TextBlock(text), *rest):
            content = (TextBlock(joined(context, text)), *rest)
        case rest:
            content = (TextBlock(context), *rest)
    return replace(prompt, content=tuple(content))


def _assembled(draft: PromptDraft, built: str) -> PromptDraft:
    """Returns the draft with the complete system prompt; its additions are then empty."""
    system = draft.system_prompt if draft.system_prompt is not None else built
    before = joined(draft.prepend_system_context, system)
    return replace(
        draft,
        system_prompt=joined(before, draft.append_system_context),
        prepend_system_context="",
        append_system_context="",
    )
