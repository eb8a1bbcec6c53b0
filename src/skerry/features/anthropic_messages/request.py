"""A model call as the body of an `anthropic-messages` request (pure)."""

import re
from collections.abc import Sequence
from typing import Any, Final

import msgspec

from skerry.sdk.model_api import NO_IMAGE, Turns, is_own, levels
from skerry.sdk.models import (
    AssistantMessage,
    Block,
    Content,
    History,
    ImageBlock,
    Message,
    ModelInfo,
    ModelRequest,
    TextBlock,
    ThinkingBlock,
    ThinkingLevel,
    ToolCall,
    ToolResultMessage,
    UserMessage,
)

API = "anthropic-messages"

Options = dict[str, Any]

_BUDGETS: Final = {
    ThinkingLevel.MINIMAL: 1024,
    ThinkingLevel.LOW: 2048,
    ThinkingLevel.MEDIUM: 8192,
    ThinkingLevel.HIGH: 16_384,
    ThinkingLevel.XHIGH: 32_768,
}
_MIN_BUDGET: Final = 1024
_MIN_ANSWER_TOKENS: Final = 1024  # tokens that remain for the answer besides the budget
_EFFORTS: Final = {ThinkingLevel.MINIMAL: "low"}  # the other levels have the same names
_BUDGET_ONLY: Final = re.compile(r"claude-(?:[23]|(?:opus|sonnet|haiku)-4(?!-[6-9]))")
_CACHE: Final = {"cache_control": {"type": "ephemeral"}}
_MARK: Final = b',"cache_control":{"type":"ephemeral"}}]}'
_NOT_IN_ID: Final = re.compile(r"[^A-Za-z0-9_-]")

_encode = msgspec.json.Encoder().encode


def thinking_options(request: ModelRequest) -> Sequence[Options]:
    """Returns the options that request the thinking level, best first.

    Newer Claude models decide themselves within an effort and think unless told not to; older
    models and those of others take a token budget. The first refusal of a model shows its kind.
    """
    model, level = request.model, request.thinking
    if not model.reasoning:
        return ({},)
    adapts = "claude" in model.id and not _BUDGET_ONLY.search(model.id)
    if level is ThinkingLevel.OFF:
        return ({"thinking": {"type": "disabled"}}, {}) if adapts else ({},)
    adaptive = [
        {
            # Without this the newest models hide their thinking.
            "thinking": {"type": "adaptive", "display": "summarized"},
            "output_config": {"effort": _EFFORTS.get(weaker, weaker.value)},
        }
        for weaker in levels(level)
    ]
    budget = min(_BUDGETS[level], model.max_tokens - _MIN_ANSWER_TOKENS)
    fixed: list[Options] = []
    if budget >= _MIN_BUDGET and not _goes_on_without_thinking(request.history, model):
        fixed = [{"thinking": {"type": "enabled", "budget_tokens": budget}}]
    return (*adaptive, *fixed, {}) if adapts else (*fixed, *adaptive, {})


def request_body(request: ModelRequest, options: Options) -> bytes:
    """Returns the JSON of a streaming request; `options` is one of `thinking_options`.

    The parts that do not change between turns are marked for the cache: the tools, the system
    prompt, the conversation up to its last message.
    """
    model = request.model
    turns = request.history.form(
        f"{API} {model.ref}", lambda: Turns(lambda message: _blocks(message, model), _turn)
    ).since(request.first)
    if turns and turns[-1].endswith(b"}]}"):
        turns[-1] = turns[-1][:-3] + _MARK
    body: Options = {"max_tokens": model.max_tokens, "stream": True}
    if request.system:
        body["system"] = [{"type": "text", "text": request.system, **_CACHE}]
    if request.tools and model.supports_tools:
        tools: list[Options] = [
            {
                "name": tool.name,
                "description": tool.description,
                "input_schema": {"type": "object", **tool.parameters},
            }
            for tool in request.tools
        ]
        tools[-1] |= _CACHE
        body["tools"] = tools
    return b'{"model":%b,"messages":[%b],%b' % (
        _encode(model.id),
        b",".join(turns),
        _encode(body | options)[1:],
    )


def _goes_on_without_thinking(history: History, model: ModelInfo) -> bool:
    """Returns true in a tool loop whose last response has no thinking.

    With a budget the API refuses such a history, which a change of model or level causes.
    """
    if not history.messages or not isinstance(history.messages[-1], ToolResultMessage):
        return False
    for message in reversed(history.messages):
        if isinstance(message, AssistantMessage):
            thoughts = (block for block in message.content if isinstance(block, ThinkingBlock))
            return not is_own(message, API, model) or not any(map(_thought, thoughts))
    return False


def _turn(assistant: bool, blocks: bytes) -> bytes:  # noqa: FBT001 - only `Turns` calls it
    role = b"assistant" if assistant else b"user"
    return b'{"role":"%b","content":[%b]}' % (role, blocks)


def _blocks(message: Message, model: ModelInfo) -> bytes:
    """Returns the blocks of a message, joined by commas; empty for an empty message."""
    sees = "image" in model.input
    blocks: list[Options | None]
    match message:
        case UserMessage():
            blocks = [_content(block, sees=sees) for block in message.content]
        case ToolResultMessage():
            blocks = [_result(message, sees=sees)]
        case AssistantMessage():
            is_own_message = is_own(message, API, model)
            blocks = [
                _sent_block(block, is_own_message=is_own_message) for block in message.content
            ]
    return b",".join(_encode(block) for block in blocks if block is not None)


def _content(block: Content, *, sees: bool) -> Options | None:
    match block:
        case TextBlock(text=text):
            return (
                {"type": "text", "text": text} if text.strip() else None
            )  # the API refuses blank text
        case ImageBlock() if sees:
            source = {"type": "base64", "media_type": block.mime_type, "data": block.data}
            return {"type": "image", "source": source}
    return {"type": "text", "text": NO_IMAGE}


def _result(message: ToolResultMessage, *, sees: bool) -> Options:
    blocks = [_content(block, sees=sees) for block in message.content]
    return {
        "type": "tool_result",
        "tool_use_id": _id(message.tool_call_id),
        "content": [block for block in blocks if block is not None],
        "is_error": message.is_error,
    }


def _sent_block(block: Block, *, is_own_message: bool) -> Options | None:
    match block:
        case TextBlock(text=text):
            return {"type": "text", "text": text} if text.strip() else None
        case ThinkingBlock():
            return _thought(block) if is_own_message else None
        case ToolCall():
            used = {"id": _id(block.id), "name": block.name, "input": block.arguments}
            return {"type": "tool_use", **used}


def _thought(block: ThinkingBlock) -> Options | None:
    """Returns thinking unchanged; the API refuses it without its signature."""
    if not block.thinking_signature:
        return None
    if block.redacted:
        return {"type": "redacted_thinking", "data": block.thinking_signature}
    return {
        "type": "thinking",
        "thinking": block.thinking,
        "signature": block.thinking_signature,
    }


def _id(call_id: str) -> str:
    """Returns a call's id in the characters that the API accepts; other providers use more."""
    return _NOT_IN_ID.sub("_", call_id)
