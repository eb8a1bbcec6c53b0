"""Types of `api.hooks`: `api.hooks.before_tool_call(handler)` is checked for each hook."""

from collections.abc import Awaitable, Callable
from functools import partial
from typing import Protocol, TypeVar

from skerry.hooks import events as e
from skerry.hooks import payloads as p

P_co = TypeVar("P_co", covariant=True)
R_contra = TypeVar("R_contra", contravariant=True)


class Watched(Protocol[P_co]):
    """A hook whose handlers only observe; their results are ignored."""

    def __call__(
        self,
        call: Callable[[P_co], object],
        *,
        priority: int = 0,
        when: Callable[[P_co], bool] | None = None,
    ) -> None:
        """Registers a handler."""


class Changed(Protocol[P_co, R_contra]):
    """A hook whose handlers, plain or async functions, may return a change or None."""

    def __call__(
        self,
        call: Callable[[P_co], Awaitable[R_contra | None] | R_contra | None],
        *,
        priority: int = 0,
        when: Callable[[P_co], bool] | None = None,
    ) -> None:
        """Registers a handler."""


class ChangedAtOnce(Protocol[P_co, R_contra]):
    """A hook whose handlers must be plain functions; they may return a change or None."""

    def __call__(
        self,
        call: Callable[[P_co], R_contra | None],
        *,
        priority: int = 0,
        when: Callable[[P_co], bool] | None = None,
    ) -> None:
        """Registers a handler."""


class HookPoints(Protocol):
    """All hooks, in the order in which a message reaches them."""

    gateway_start: Watched[e.GatewayStart]
    session_start: Watched[e.SessionStart]
    message_received: Watched[e.MessageReceived]
    before_model_resolve: Changed[p.ModelResolve, p.ModelResolveChange]
    command: Watched[e.CommandGiven]
    agent_bootstrap: Changed[p.BootstrapDraft, p.BootstrapChange]
    before_prompt_build: Changed[p.PromptDraft, p.PromptChange]
    before_agent_start: Changed[p.PromptDraft, p.PromptChange]
    llm_input: Changed[p.LlmInput, p.LlmInputChange]
    llm_output: Changed[p.LlmOutput, p.LlmOutputChange]
    before_compaction: Watched[e.BeforeCompaction]
    after_compaction: Watched[e.AfterCompaction]
    before_tool_call: Changed[p.BeforeToolCall, p.BeforeToolCallChange]
    tool_result_persist: ChangedAtOnce[p.ToolResultPersist, p.ToolResultPersistChange]
    after_tool_call: Changed[p.AfterToolCall, p.AfterToolCallChange]
    agent_end: Watched[e.AgentEnd]
    message_sending: Changed[p.MessageSending, p.MessageSendingChange]
    before_message_write: ChangedAtOnce[p.BeforeMessageWrite, p.BeforeMessageWriteChange]
    message_sent: Watched[e.MessageSent]
    before_reset: Watched[e.BeforeReset]
    session_end: Watched[e.SessionEnd]
    gateway_stop: Watched[e.GatewayStop]


class EveryPoint:
    """Implements `HookPoints` for every name."""

    def __init__(self, on: Callable[..., None]) -> None:
        self._on = on

    def __getattr__(self, name: str) -> Callable[..., None]:
        return partial(self._on, name)
