"""Executes one run: builds its parts, runs the loop within the time limit, returns the reason."""

import logging
from collections.abc import Callable, Mapping
from contextlib import nullcontext, suppress

import anyio
from msgspec.structs import replace

from skerry.model.errors import StateError
from skerry.model.event import MessageUpdate
from skerry.model.inbound import PeerKind, ReplyTo
from skerry.model.message import AssistantMessage, UserMessage
from skerry.model.run import Purpose, RunFailure, StopReason
from skerry.replies.style import Style, TypingMode, on_channel, prefix, style
from skerry.runtime.block_streaming import BlockStreamer
from skerry.runtime.compaction.compactor import CompactionTarget, Compactor
from skerry.runtime.conversation import CachedConversation
from skerry.runtime.finalize import unexpected
from skerry.runtime.loop import AgentLoop, LoopPorts
from skerry.runtime.loop_ports import (
    Responder,
    RunEvents,
    RunMailbox,
    RunTools,
    RunTranscript,
)
from skerry.runtime.model_call import ModelCall, ResponseDraft
from skerry.runtime.request_builder import RequestBuilder
from skerry.runtime.run_context import RunPlan
from skerry.runtime.run_hooks import RunHooks, TranscriptHooks
from skerry.runtime.skill_use import tool_turn
from skerry.runtime.usage.usage_limits import RunMeter
from skerry.sessions.send_policy import sends_to
from skerry.store import runs

logger = logging.getLogger(__name__)


class RunExecutor:
    """Executes one run. Call `run()`, then read `failure`."""

    def __init__(
        self, plan: RunPlan, conversation: CachedConversation, writing: TranscriptHooks
    ) -> None:
        """Builds the parts of the run, each from the earlier ones."""
        runtime, active = plan.runtime, plan.active
        now_ms, continued = runtime.clock.now_ms, active.continued
        self.plan = plan
        self.conversation = conversation
        self._earlier = continued.messages if continued else ()
        pipeline = RunHooks(runtime.hooks, plan.hooks, writing, runtime.clock)
        failover, draft = runtime.failover(plan.target), ResponseDraft(plan.show)
        request = active.request
        self.replying = (
            answers(plan, lambda: plan.variables(failover)) if request.reply_to else None
        )
        self._events = events = RunEvents(plan, draft, self.replying)
        self.speaker = ModelCall(failover, events.emit, now_ms, draft)
        self.speaker.take_up(self._earlier, active.sent or "" if continued else "")
        self._limits = RunMeter(runtime.ledger.meter, active.request, events.emit, self._earlier)
        transcript = RunTranscript(plan, conversation, writing, self.replying)
        mailbox = RunMailbox(plan, transcript, self._limits)
        tools = RunTools(plan, conversation, pipeline, self._limits, self.speaker)
        if self.replying is not None:
            self.replying.attach = tools.attach
        target = CompactionTarget(
            request.key, active.session_id, plan.target, request.purpose, request.origin
        )
        compactor = Compactor(runtime, plan.config, target, pipeline, tools.context, events.publish)
        self._requests = RequestBuilder(plan, compactor, conversation)
        self._responder = Responder(
            plan, self.speaker, self._requests, self._limits, pipeline, events
        )
        self.loop = AgentLoop(
            LoopPorts(
                respond=self._respond,
                execute=tools.execute,
                save=transcript.save,
                steered=active.is_steered,
                steering=mailbox.steering,
                follow_ups=mailbox.follow_ups,
                add=conversation.add,
                emit=events.emit,
                now_ms=now_ms,
            )
        )
        self.failure: RunFailure | None = None

    async def run(self, prompt: UserMessage) -> StopReason:
        """Answers `prompt` within the time limit; returns the reason why the run stopped.

        The transcript always ends in a message of the assistant: otherwise the next request would
        have two messages of the person in a row.
        """
        active = self.plan.active
        self._requests.begin_with(prompt, active.continued)
        seconds = active.request.timeout
        if seconds is None:
            seconds = self.plan.config.agents.defaults.timeout_seconds
        scope = anyio.CancelScope()
        if seconds > 0:
            scope.deadline = anyio.current_time() + seconds
        try:
            async with self.replying or nullcontext():
                with scope:
                    active.open(scope, exclusive=self.plan.command is not None)
                    await self.loop.run(prompt, self._earlier)
        except Exception as error:
            # Any failure must be reported to the person; the log has the details.
            logger.exception("run %s failed", active.request.run_id)
            self.failure = unexpected(error)
        finally:
            self._close()
        return self._stop_reason(scope, seconds)

    async def _respond(self) -> AssistantMessage:
        """Returns the next response: of a command, of the skill's tool, or of a model."""
        plan = self.plan
        skill, runtime = plan.active.request.skill, plan.runtime
        if skill is None or not skill.tool or self._limits.stops():
            return await self._responder.respond()
        run_id, last = plan.active.request.run_id, self.loop.messages[-1]
        message = tool_turn(skill, runtime.tools, run_id, last, runtime.clock.now_ms())
        if not message.tool_calls:
            runtime.histories.forget(plan.active.session_id)  # the answer is not for the model
            self._events.emit(MessageUpdate(message.text))
        return message

    def _close(self) -> None:
        self.plan.active.close()
        self._requests.end()
        self._limits.end()

    def _stop_reason(self, scope: anyio.CancelScope, seconds: float) -> StopReason:
        """Returns the reason why the run stopped; closes a cancelled or failed loop."""
        if self.failure is not None:
            self.loop.close(self.speaker.broken_off("error", self.failure.message))
        elif not scope.cancelled_caught:
            self.failure = self.speaker.failure
        elif self.plan.active.aborted_by is not None:
            self.loop.close(self.speaker.broken_off("aborted", None))
            return StopReason.ABORTED
        else:
            text = f"The run took longer than {seconds:g} s."
            self.failure = RunFailure("run.timeout", text, retryable=True)
            self.loop.close(self.speaker.broken_off("aborted", text))
            return StopReason.TIMEOUT
        return StopReason.ERROR if self.failure else StopReason.DONE

    async def notices(self) -> tuple[str, ...]:
        """Returns the notes for the person that this conversation has not shown before."""
        shown_notices = self.conversation.shown_notices
        notes = [*self._requests.notes, *self.speaker.notes]
        if self.speaker.missing_note and self.plan.settings.model:  # else only the log has it
            notes.append(f"{self.speaker.missing_note} `/model default` ends it.")
        if any(note not in shown_notices for note in notes):
            session_id = self.plan.active.session_id
            with suppress(StateError):  # then the note is shown once more
                shown_notices |= await self.plan.runtime.store.read(
                    lambda r: runs.notices(r, session_id)
                )
        new = [note for note in notes if note not in shown_notices]
        shown_notices.update(new)
        return (*self._responder.status, *new)


def answers(plan: RunPlan, variables: Callable[[], Mapping[str, str]]) -> BlockStreamer | None:
    """Returns the sender of the run's answers to a platform; None if nothing is sent to one."""
    active, request, config = plan.active, plan.active.request, plan.config
    to = sends_to(config.session.send_policy, plan.settings, request.key, request.reply_to)
    if to is None:
        command = plan.command[0] if plan.command else None
        if command is None or not (command.breaks_silence and command.permits(request.may)):
            return None
        to = request.reply_to
    if to is None:
        return None
    sent = _style(plan, to)
    before = config.messages.response_prefix

    def prefixed(text: str) -> str:
        values = variables() if before else {}
        if not values.get("model"):
            return text  # no model wrote the answer of a command
        return f"{prefix(before, values)} {text}"

    replying = BlockStreamer(plan.runtime, plan.hooks, to, sent, plan.show, prefixed)
    if active.continued is not None:
        replying.take_up(active.continued)
    return replying


def _style(plan: RunPlan, to: ReplyTo) -> Style:
    """Returns how the answers of a run are sent to an address."""
    config, delivery, hooks = plan.config, plan.runtime.delivery, plan.runtime.hooks
    limit, unit = delivery.room(to)
    direct = to.peer.kind is PeerKind.DIRECT
    sent = style(config.agents.defaults, plan.settings, limit, unit, direct=direct)
    section = config.channel(to.channel)
    if section is not None:
        # A plugin may change the complete message; removed text must not have been shown.
        may_grow = not (hooks.llm_output.handlers or hooks.message_sending.handlers)
        edits = may_grow and delivery.edits(to)
        sent = on_channel(sent, section.streaming_of(to.account), edits=edits)
    if plan.active.request.purpose is not Purpose.MESSAGE:
        sent = replace(sent, typing=TypingMode.NEVER, preview="off")  # no person waits for it
    return sent
