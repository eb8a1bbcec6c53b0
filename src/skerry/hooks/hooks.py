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
"""Seconds for `before_prompt_build`, whose handlers look memories up over the network."""


class Hooks(anyio.AsyncContextManagerMixin):
    """Every point as a typed field. Use as `async with` before the first message arrives.

    A point without handlers costs the test of an empty tuple.
    """

    def __init__(self, clock: Clock | None = None) -> None:  # noqa: PLR0915 - one for each point
        run = self.runner = Runner(clock or SystemClock())
        self.gateway_start = Observe("gateway_start", run, e.GatewayStart)
        """The gateway listens and accepts messages."""
        self.session_start = Observe("session_start", run, e.SessionStart)
        """A conversation began: its first message was stored, or it was reset or restored."""
        self.message_received = Observe("message_received", run, e.MessageReceived)
        """A message was accepted: it is stored, and its run is queued. Called once for each
        message, also if the message is sent several times."""
        self.before_model_resolve = Transform(
            "before_model_resolve",
            run,
            p.ModelResolve.merged,
            payload=p.ModelResolve,
            returns=p.ModelResolveChange,
        )
        """A run begins; its model is about to be chosen. If the chosen model cannot be used, the
        configured one is."""
        self.command = Observe("command", run, e.CommandGiven)
        """A command was given and is about to be answered. Also called when a client stops a run
        or resets a conversation by a method."""
        self.agent_bootstrap = Transform(
            "agent_bootstrap",
            run,
            p.BootstrapDraft.merged,
            payload=p.BootstrapDraft,
            returns=p.BootstrapChange,
        )
        """The files of the workspace were read; the system prompt is about to be built. Called
        once for each run whose model has room for them, and when a prompt is inspected."""
        self.before_prompt_build = Transform(
            "before_prompt_build",
            run,
            p.PromptDraft.merged,
            payload=p.PromptDraft,
            returns=p.PromptChange,
            timeout=PROMPT_SECONDS,
        )
        """The session is loaded and the model is chosen; the system prompt is about to be built.
        Called once for each run."""
        self.before_agent_start = Transform(
            "before_agent_start",
            run,
            p.PromptDraft.merged,
            payload=p.PromptDraft,
            returns=p.PromptChange,
        )
        """The prompt is built; the first model call is about to be made. Called once for each
        run."""
        self.llm_input = Transform(
            "llm_input", run, p.LlmInput.merged, payload=p.LlmInput, returns=p.LlmInputChange
        )
        """A model call is about to be made. A run with tool calls makes several."""
        self.llm_output = Transform(
            "llm_output", run, p.LlmOutput.merged, payload=p.LlmOutput, returns=p.LlmOutputChange
        )
        """The model has responded; the tool calls of this response have not begun. Not called for
        a model call that failed. Clients have already received the text as deltas."""
        self.before_compaction = Observe("before_compaction", run, e.BeforeCompaction)
        """A conversation is about to be summarised: it is too long for its model, or a summary was
        requested. All of its messages stay stored."""
        self.after_compaction = Observe("after_compaction", run, e.AfterCompaction)
        """A conversation was summarised, and the summary is stored."""
        self.before_tool_call = Guard(
            "before_tool_call",
            run,
            p.BeforeToolCall.merged,
            payload=p.BeforeToolCall,
            returns=p.BeforeToolCallChange,
        )
        """A tool is about to run. Called once for each tool call that is not skipped."""
        self.tool_result_persist = SyncTransform(
            "tool_result_persist",
            run,
            p.ToolResultPersist.merged,
            payload=p.ToolResultPersist,
            returns=p.ToolResultPersistChange,
        )
        """A tool has ended; its result is about to be written to the transcript. In this run the
        model reads the unchanged result; later runs read the one in the transcript."""
        self.after_tool_call = Transform(
            "after_tool_call",
            run,
            p.AfterToolCall.merged,
            payload=p.AfterToolCall,
            returns=p.AfterToolCallChange,
        )
        """A tool call has ended or was blocked. A replaced result counts for the model and for the
        transcript."""
        self.agent_end = Observe("agent_end", run, e.AgentEnd)
        """The model has given its last response; the reply is not stored yet. Nothing waits for
        these handlers."""
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
        """An entry is about to be written to the transcript: the person's, the model's or a tool's.
        A change does not affect the text shown or sent to the person."""
        self.message_sent = Observe("message_sent", run, e.MessageSent)
        """A platform accepted a part of a reply, or finally refused it."""
        self.before_reset = Observe("before_reset", run, e.BeforeReset)
        """A conversation is about to be reset; none of its runs is active. The payload has the
        messages, so nothing waits for the handlers."""
        self.session_end = Observe("session_end", run, e.SessionEnd)
        """A conversation was archived: reset, deleted, or replaced by a restored one."""
        self.gateway_stop = Observe("gateway_stop", run, e.GatewayStop)
        """The gateway no longer accepts messages; active runs have some time to end."""

    @asynccontextmanager
    async def __asynccontextmanager__(self) -> AsyncGenerator[Self]:
        async with self.runner:
            yield self

    @property
    def points(self) -> dict[str, Point[Any, Any]]:
        """Returns every point by its name, in the order of the fields."""
        return {var.name: var for var in vars(self).values() if isinstance(var, Point)}

    def report(self) -> list[HandlerReport]:
        """Returns the health of every handler, in the order in which they run."""
        return [line for point in self.points.values() for line in point.report()]
