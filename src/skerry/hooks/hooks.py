"""All hook points of a gateway, in the order in which a message meets them."""

from collections.abc import AsyncGenerator
from contextlib import asynccontextmanager
from typing import Any, Self

import anyio

from skerry.hooks import events as e
from skerry.hooks import payloads as p
from skerry.hooks.points import Guard, Observe, Point, SyncTransform, Transform
from skerry.hooks.runner import HandlerReport, Runner
from skerry.infra.clock import Clock, SystemClock

PROMPT_SECONDS = 10.0
"""Seconds for `before_prompt_build`, where memories are looked up over the network."""


class Hooks(anyio.AsyncContextManagerMixin):
    """Every point as a typed field. Use as `async with` before a message comes.

    A point without handlers costs one look at an empty tuple.
    """

    def __init__(self, clock: Clock | None = None) -> None:  # noqa: PLR0915 - one for each point
        run = self.runner = Runner(clock or SystemClock())
        self.gateway_start = Observe("gateway_start", run, e.GatewayStart)
        """The gateway listens and takes messages."""
        self.session_start = Observe("session_start", run, e.SessionStart)
        """A conversation began: it got its first message, which is stored, or was reset or
        restored."""
        self.message_received = Observe("message_received", run, e.MessageReceived)
        """A message was accepted: it is stored, and its run waits for its turn. Once for each
        message, however often it is sent."""
        self.before_model_resolve = Transform(
            "before_model_resolve",
            run,
            p.ModelResolve.merged,
            payload=p.ModelResolve,
            returns=p.ModelResolveChange,
        )
        """A run begins; its model is about to be chosen. A model that cannot be used leaves the
        configured one."""
        self.command = Observe("command", run, e.CommandGiven)
        """A command was given and is about to be answered. Also when a client stops a run, or
        resets a conversation, by a method."""
        self.agent_bootstrap = Transform(
            "agent_bootstrap",
            run,
            p.BootstrapDraft.merged,
            payload=p.BootstrapDraft,
            returns=p.BootstrapChange,
        )
        """The files of the workspace were read; the system prompt is about to be put together.
        Once for each run whose model has room for them, and when somebody looks at a prompt."""
        self.before_prompt_build = Transform(
            "before_prompt_build",
            run,
            p.PromptDraft.merged,
            payload=p.PromptDraft,
            returns=p.PromptChange,
            timeout=PROMPT_SECONDS,
        )
        """The session is loaded and the model is chosen; the system prompt is about to be put
        together. Once for each run."""
        self.before_agent_start = Transform(
            "before_agent_start",
            run,
            p.PromptDraft.merged,
            payload=p.PromptDraft,
            returns=p.PromptChange,
        )
        """The prompt is put together; the first call of the model is about to be made. Once for
        each run."""
        self.llm_input = Transform(
            "llm_input", run, p.LlmInput.merged, payload=p.LlmInput, returns=p.LlmInputChange
        )
        """A call of the model is about to be made. A run with tool calls makes several."""
        self.llm_output = Transform(
            "llm_output", run, p.LlmOutput.merged, payload=p.LlmOutput, returns=p.LlmOutputChange
        )
        """The model has responded; the tool calls of this response have not begun. A call that
        failed has no response. The text was shown while it came."""
        self.before_compaction = Observe("before_compaction", run, e.BeforeCompaction)
        """A conversation is about to be summarised: it is too long for its model, or somebody asked
        for it. None of its messages is lost by it."""
        self.after_compaction = Observe("after_compaction", run, e.AfterCompaction)
        """A conversation was summarised, and the summary is stored."""
        self.before_tool_call = Guard(
            "before_tool_call",
            run,
            p.BeforeToolCall.merged,
            payload=p.BeforeToolCall,
            returns=p.BeforeToolCallChange,
        )
        """A tool is about to run. Once for each call that is not skipped."""
        self.tool_result_persist = SyncTransform(
            "tool_result_persist",
            run,
            p.ToolResultPersist.merged,
            payload=p.ToolResultPersist,
            returns=p.ToolResultPersistChange,
        )
        """A tool has ended; its result is about to go to the transcript. In this run the model
        reads the result itself, from the next run on what the transcript has."""
        self.after_tool_call = Transform(
            "after_tool_call",
            run,
            p.AfterToolCall.merged,
            payload=p.AfterToolCall,
            returns=p.AfterToolCallChange,
        )
        """A tool call has ended, also one that was blocked. What replaces its result does so for
        the model and for the transcript."""
        self.agent_end = Observe("agent_end", run, e.AgentEnd)
        """The model has said its last word; the reply is not stored yet. Nothing waits for these
        handlers."""
        self.message_sending = Guard(
            "message_sending",
            run,
            p.MessageSending.merged,
            payload=p.MessageSending,
            returns=p.MessageSendingChange,
        )
        """A block of a reply to a chat platform is about to be cut into parts and stored. Clients
        of the gateway read the transcript instead."""
        self.before_message_write = SyncTransform(
            "before_message_write",
            run,
            p.BeforeMessageWrite.merged,
            payload=p.BeforeMessageWrite,
            returns=p.BeforeMessageWriteChange,
        )
        """An entry is about to go to the transcript: the person's, the model's or a tool's. What
        the person is shown or sent is not changed by it."""
        self.message_sent = Observe("message_sent", run, e.MessageSent)
        """A platform took a part of a reply, or refused it for good."""
        self.before_reset = Observe("before_reset", run, e.BeforeReset)
        """A conversation is about to begin anew; none of its runs is at work. The handlers have
        what was said, so nothing waits for them."""
        self.session_end = Observe("session_end", run, e.SessionEnd)
        """A conversation was archived: reset, deleted, or displaced by one that was restored."""
        self.gateway_stop = Observe("gateway_stop", run, e.GatewayStop)
        """The gateway takes no more messages; runs that go on have some time to end."""

    @asynccontextmanager
    async def __asynccontextmanager__(self) -> AsyncGenerator[Self]:
        async with self.runner:
            yield self

    @property
    def points(self) -> dict[str, Point[Any, Any]]:
        """Returns every point by its name, in the order of the fields."""
        return {var.name: var for var in vars(self).values() if isinstance(var, Point)}

    def report(self) -> list[HandlerReport]:
        """Returns how every handler does, in the order in which they run."""
        return [line for point in self.points.values() for line in point.report()]
