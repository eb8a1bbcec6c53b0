"""All hook points of a gateway, in the order in which a message meets them."""

from collections.abc import AsyncGenerator
from contextlib import asynccontextmanager
from typing import Any, Self

import anyio

from skerry.hooks import payloads as p
from skerry.hooks.points import Guard, Observe, Point, SyncTransform, Transform
from skerry.hooks.runner import HandlerReport, Runner
from skerry.infra.clock import Clock, SystemClock

PROMPT_SECONDS = 10.0
"""For `before_prompt_build`, where memories are looked up over the network."""


class Hooks(anyio.AsyncContextManagerMixin):
    """Every point as a typed field. Use as `async with` before a message comes.

    A point without handlers costs one look at an empty tuple.
    """

    def __init__(self, clock: Clock | None = None) -> None:
        run = self._runner = Runner(clock or SystemClock())
        self.gateway_start = Observe("gateway_start", run, p.GatewayStart)
        self.session_start = Observe("session_start", run, p.SessionStart)
        self.message_received = Observe("message_received", run, p.MessageReceived)
        self.before_model_resolve = Transform(
            "before_model_resolve",
            run,
            p.ModelResolve.merged,
            payload=p.ModelResolve,
            returns=p.ModelResolveChange,
        )
        self.before_prompt_build = Transform(
            "before_prompt_build",
            run,
            p.PromptDraft.merged,
            payload=p.PromptDraft,
            returns=p.PromptChange,
            timeout=PROMPT_SECONDS,
        )
        self.before_agent_start = Transform(
            "before_agent_start",
            run,
            p.PromptDraft.merged,
            payload=p.PromptDraft,
            returns=p.PromptChange,
        )
        self.llm_input = Transform(
            "llm_input", run, p.LlmInput.merged, payload=p.LlmInput, returns=p.LlmInputChange
        )
        self.llm_output = Transform(
            "llm_output", run, p.LlmOutput.merged, payload=p.LlmOutput, returns=p.LlmOutputChange
        )
        self.before_tool_call = Guard(
            "before_tool_call",
            run,
            p.BeforeToolCall.merged,
            payload=p.BeforeToolCall,
            returns=p.BeforeToolCallChange,
        )
        self.tool_result_persist = SyncTransform(
            "tool_result_persist",
            run,
            p.ToolResultPersist.merged,
            payload=p.ToolResultPersist,
            returns=p.ToolResultPersistChange,
        )
        self.after_tool_call = Transform(
            "after_tool_call",
            run,
            p.AfterToolCall.merged,
            payload=p.AfterToolCall,
            returns=p.AfterToolCallChange,
        )
        self.agent_end = Observe("agent_end", run, p.AgentEnd)
        self.message_sending = Guard(
            "message_sending",
            run,
            p.MessageSending.merged,
            payload=p.MessageSending,
            returns=p.MessageSendingChange,
        )
        self.before_message_write = SyncTransform(
            "before_message_write",
            run,
            p.BeforeMessageWrite.merged,
            payload=p.BeforeMessageWrite,
            returns=p.BeforeMessageWriteChange,
        )
        self.message_sent = Observe("message_sent", run, p.MessageSent)
        self.session_end = Observe("session_end", run, p.SessionEnd)
        self.gateway_stop = Observe("gateway_stop", run, p.GatewayStop)

    @asynccontextmanager
    async def __asynccontextmanager__(self) -> AsyncGenerator[Self]:
        async with self._runner:
            yield self

    @property
    def points(self) -> dict[str, Point[Any, Any]]:
        """Return every point by its name, in the order of the fields."""
        return {one.name: one for one in vars(self).values() if isinstance(one, Point)}

    def report(self) -> list[HandlerReport]:
        """Return how every handler does, in the order in which they run."""
        return [one for point in self.points.values() for one in point.report()]
