"""The loop of one run, tied to its model, its tools, its transcript and its mailbox."""

import asyncio
import logging
from collections.abc import Mapping, Sequence
from contextlib import nullcontext, suppress
from typing import Final

import anyio

from skerry.commands.table import Command, answer, tell_command
from skerry.config.protected import gate
from skerry.infra.rooted_fs import Beneath
from skerry.lanes.running import ActiveRun
from skerry.model.errors import StateError
from skerry.model.event import (
    LoopEvent,
    MessageUpdate,
    MessageWithdrawn,
    RunEvent,
    RunEventBody,
    RunStarted,
    TextDelta,
    TextEnded,
    TextWithdrawn,
    ThinkingDelta,
    ThinkingUpdate,
    ToolExecutionEnd,
    ToolExecutionStart,
    ToolFinished,
    ToolStarted,
    TurnEnd,
)
from skerry.model.memory import Heard
from skerry.model.message import (
    AssistantMessage,
    Message,
    ToolCall,
    ToolResultMessage,
    UserMessage,
)
from skerry.model.run import RunFailure, StopReason
from skerry.model.session import SessionSettings
from skerry.policy.decide import Actor
from skerry.ports.model import ModelInfo, ModelRequest
from skerry.ports.tool import ToolContext
from skerry.runtime import tool_calls
from skerry.runtime.caller_context import run_context, taint
from skerry.runtime.command_call import command_call
from skerry.runtime.compaction.compactor import Compactor, Whose
from skerry.runtime.continuation import going_on
from skerry.runtime.conversation_cache import Conversation
from skerry.runtime.loop import AgentLoop, LoopPorts
from skerry.runtime.media_marks import shown_files
from skerry.runtime.model_call import Speaker
from skerry.runtime.platform_replies import answers
from skerry.runtime.request_builder import Asking
from skerry.runtime.run_defaults import run_defaults
from skerry.runtime.run_hooks import Pipeline
from skerry.runtime.services import Runtime
from skerry.runtime.session_lookup import Recollection
from skerry.runtime.transcript_writer import Writing
from skerry.runtime.usage.limits import RunMeter
from skerry.sessions.history import command_answer
from skerry.store import Unit, runs, sessions

logger = logging.getLogger(__name__)

CHECKPOINT_SECONDS: Final = 1.0
CHECKPOINT_CHARS: Final = 2048
CHECKPOINT_SHARE: Final = 8
"""Divisor of a long text's length, for the growth between checkpoints: each writes all of it."""


class Dialogue:
    """One run's talk with the model. `hold` it; then read how it went."""

    def __init__(
        self,
        runtime: Runtime,
        active: ActiveRun,
        conversation: Conversation,
        writing: Writing,
    ) -> None:
        self._runtime = runtime
        self._active = active
        self._config = runtime.config()  # one configuration for the whole run
        self._agent = active.request.key.agent
        self.conversation = conversation
        self._writing = writing
        self._own = active.settings or SessionSettings()
        self._command = runtime.commands.given(active.request)
        workspace = self._config.workspace(self._agent)
        defaults = run_defaults(active, self._config)
        self._caller = defaults.caller
        self.context = run_context(active.request, active.session_id, workspace, defaults.caller)
        self._pipeline = Pipeline(runtime.hooks, self.context, writing, runtime.clock)
        self.show = shown_files(self._config, self._agent)
        self.speaker = Speaker(
            runtime.asking(defaults.wanted),
            self._emit,
            runtime.clock.now_ms,
            show=self.show,
        )
        self.replying = answers(
            runtime, self._config, active, self.context, self.show, self._variables
        )
        self.loop = AgentLoop(
            LoopPorts(
                respond=self._respond,
                execute=self._execute,
                save=self._save,
                steered=active.is_steered,
                steering=self._poll_steering,
                follow_ups=self._poll_follow_ups,
                add=conversation.add,
                emit=self._emit,
                now_ms=runtime.clock.now_ms,
            )
        )
        self._done = active.continued.messages if active.continued else ()
        self.speaker.take_up(self._done, active.sent or "" if active.continued else "")
        self._limits = RunMeter(runtime.meter, active.request, self._emit, self._done)
        self.failure: RunFailure | None = None
        whose = Whose.of(active, defaults.wanted)
        compaction = self._config.agents.defaults.compaction
        compactor = Compactor(runtime, compaction, whose, self._pipeline, self._means, self._tell)
        self._asking = Asking(runtime, self._config, active, compactor, conversation, defaults)
        self._asked_for: tuple[str, ...] = ()
        self._since_checkpoint = 0
        self._checkpointed = 0
        self._checkpoint_timer: asyncio.TimerHandle | None = None

    async def hold(self, prompt: UserMessage) -> StopReason:
        """Answer `prompt` within the time limit; return why the run stopped.

        Whatever happens, the transcript ends in a message of the assistant: else the next request
        would have two messages of the person in a row.
        """
        active = self._active
        self._asking.begin_with(prompt, active.continued)
        seconds = active.request.timeout
        if seconds is None:
            seconds = self._config.agents.defaults.timeout_seconds
        scope = anyio.CancelScope()
        if seconds > 0:
            scope.deadline = anyio.current_time() + seconds
        try:
            async with self.replying or nullcontext():
                with scope:
                    active.open(scope, alone=self._command is not None)
                    await self.loop.run(prompt, self._done)
        except Exception as error:
            # The person must hear of it, whatever it was; the log has the details.
            logger.exception("run %s failed", active.request.run_id)
            self.failure = unexpected(error)
        finally:
            self._close()
        if self.failure is not None:
            self.loop.close(self.speaker.broken_off("error", self.failure.message))
        elif not scope.cancelled_caught:
            self.failure = self.speaker.failure
        elif active.aborted_by is not None:
            self.loop.close(self.speaker.broken_off("aborted", None))
            return StopReason.ABORTED
        else:
            text = f"The run took longer than {seconds:g} s."
            self.failure = RunFailure("run.timeout", text, retryable=True)
            self.loop.close(self.speaker.broken_off("aborted", text))
            return StopReason.TIMEOUT
        return StopReason.ERROR if self.failure else StopReason.DONE

    async def notices(self) -> tuple[str, ...]:
        """Returns the notes for the person that were not shown in this conversation before."""
        told = self.conversation.told
        notes = [*self._asking.notes, *self.speaker.notes]
        if self.speaker.gone and self._own.model:  # else its owner has the log
            notes.append(f"{self.speaker.gone} `/model default` ends it.")
        if any(one not in told for one in notes):
            session_id = self._active.session_id
            with suppress(StateError):  # then it is told once more
                told |= await self._runtime.store.read(lambda r: runs.told(r, session_id))
        new = [one for one in notes if one not in told]
        told.update(new)
        return (*self._asked_for, *new)

    def _close(self) -> None:
        self._active.close()
        self._asking.end()
        self._limits.end()

    # What the loop needs done

    async def _respond(self) -> AssistantMessage:
        try:
            if self._command is not None:
                return await self._answer(*self._command)
            if stopped := self._limits.stops():
                return self.speaker.said(stopped)
            if not self._asking.begun:
                await self._report()
                speaker, models = self.speaker, self._runtime.models
                text, reference = self._asking.prompt.text, speaker.reference
                speaker.reference = await self._pipeline.resolve(text, reference, models)
            if self.speaker.resumed:  # clients that come now read it too
                self._publish(self._active, TextDelta(self.speaker.resumed))
            response = await self.speaker.respond(self._request)
            while await self._asking.too_long(self.speaker.failure, response):
                response = await self.speaker.respond(self._request)
            self.speaker.failure = self._asking.given_up(self.speaker.failure)
            response = await self._pipeline.llm_output(response)
            return self._limits.admitted(response)
        finally:
            self._begin_checkpoint()

    async def _request(self, model: ModelInfo) -> ModelRequest:
        return going_on(await self._asking.request(model), self.speaker.resumed)

    async def _answer(self, command: Command, arguments: str) -> AssistantMessage:
        """Return the answer to the command that the prompt is."""
        call = command_call(self._active, command, arguments, self._asking.compact)
        tell_command(self._runtime.hooks, call, self._active.session_id)
        what = f"command /{command.name}"
        text = await self._runtime.leash.do(lambda: answer(command, call), what)
        self._emit(MessageUpdate(text))
        return command_answer(text, self._runtime.clock.now_ms())

    async def _report(self) -> None:
        """Note how the gateway does, where the message asks for that beside what it says."""
        inline, status = self._active.request.inline, self._runtime.commands.find("status")
        if inline is not None and inline.status and status is not None:
            self._asked_for = (await answer(status, command_call(self._active, status)),)

    async def _execute(self, call: ToolCall) -> ToolResultMessage:
        self._limits.tool()
        return await self._pipeline.tool(call, self._run_tool)

    async def _run_tool(self, call: ToolCall) -> ToolResultMessage:
        at = self._runtime.clock.now_ms()
        context = self._means()
        tools = {one.spec.name: one for one in self._runtime.offered(self._caller)}
        return await self._runtime.leash.do(
            lambda: tool_calls.execute(call, tools, context, at), f"tool {call.name}"
        )

    def _means(self) -> ToolContext:
        """Returns the context of a tool; most runs call none, and it takes half a millisecond."""
        messages = self.conversation.history.messages
        read, heard = taint(messages), Heard.of(self._caller.key, self._asking.sent)
        actor, who = Actor.of(self._caller, read), str(self._caller.key)
        rules = gate(self._config, actor, self._runtime.records, who)
        beneath = Beneath(self._config.workspace(self._agent), rules)
        recall = Recollection(self._runtime.store, self._active)
        return ToolContext(beneath, recall, self._caller, read, heard)

    async def _save(self, messages: Sequence[Message]) -> None:
        await self._write(messages)

    async def _poll_steering(self) -> Sequence[UserMessage]:
        return await self._let_enter()

    async def _poll_follow_ups(self) -> Sequence[UserMessage]:
        """Look a last time; what comes later has a turn of its own."""
        entered = await self._let_enter()
        if not entered:
            self._active.working = False  # nothing may enter a loop that has decided to stop
        return entered

    async def _let_enter(self) -> Sequence[UserMessage]:
        """Let the next waiting message enter, one at a time (the default of pi-agent-core).

        It stays in the mailbox until it has entered, whatever ends this run before. One that was
        aborted stays for good, and gets a turn of its own that ends it.
        """
        for guest in tuple(self._active.steering):
            if guest.aborted_by is not None or self._limits.reached():
                continue
            entered = guest.request.said(guest.accepted_at)
            if guest.turn is not None:  # its own turn comes all the same
                await self._write([*self.loop.unsaved, entered])
                guest.heard = True
            else:
                await self._write([*self.loop.unsaved, entered], guest)
                host = self._active.request.run_id
                self._publish(guest, RunStarted(self._runtime.clock.now_ms(), host))
            self._active.steering.remove(guest)
            self.loop.unsaved.clear()
            return [entered]
        return []

    async def _write(self, messages: Sequence[Message], guest: ActiveRun | None = None) -> None:
        """Make messages durable; the last is that of `guest`, where there is one."""
        run_id, session_id = self._active.request.run_id, self._active.session_id
        tail = self.conversation.tail
        own: Sequence[Message] = messages if guest is None else messages[:-1]
        last: Sequence[Message] = ()

        def save(unit: Unit) -> int:
            now = self._runtime.clock.now_ms()
            new_tail = sessions.append(unit, session_id, tail, run_id, own, now) if own else tail
            runs.leave_trace(unit, run_id)
            if guest is not None:
                guest_id = guest.request.run_id
                if last:
                    heard = guest.accepted_at if self._runtime.limits(guest.request) else 0
                    new_tail = sessions.append(
                        unit, session_id, new_tail, guest_id, last, now, heard=heard
                    )
                runs.join(unit, guest_id, run_id, new_tail)
            return new_tail

        with anyio.CancelScope(shield=True):  # an abort must not lose count of what is stored
            if self.replying is not None:
                await self.replying.settle()
            own = await self._writing.entries(own, self.context)
            if guest is not None:
                own_context = run_context(guest.request, guest.session_id, self.context.workspace)
                last = await self._writing.entries(messages[-1:], own_context)
            self.conversation.tail = await self._runtime.store.write(save)
        if guest is not None:
            self._active.join(guest)

    # What it tells

    def _emit(self, event: LoopEvent) -> None:
        if self.replying is not None:
            self.replying.hear(event, self.speaker.marks)
        match event:
            case MessageUpdate(delta):
                self._publish(self._active, TextDelta(delta))
                self._keep_partial(len(delta))
            case ThinkingUpdate(delta):
                self._publish(self._active, ThinkingDelta(delta))
            case MessageWithdrawn():
                self._publish(self._active, TextWithdrawn())
                self._begin_checkpoint()
            case ToolExecutionStart(call):
                self._publish(self._active, ToolStarted(call.id, call.name, call.arguments))
            case ToolExecutionEnd(call, result):
                finished = ToolFinished(call.id, call.name, result.is_error, result.text)
                self._publish(self._active, finished)
            case TurnEnd():
                self._publish(self._active, TextEnded())

    def _variables(self) -> Mapping[str, str]:
        """Returns the variables for the prefix of an answer."""
        agent = self._config.agents.get(self._agent)
        identity = agent.identity if agent else None
        thinking = self._active.request.thinking or self._own.thinking_level
        return {
            "model": self.speaker.model,
            "provider": self.speaker.provider,
            "thinkingLevel": str(thinking or self._config.thinking(self._agent) or ""),
            "identity.name": (identity and identity.name) or (agent and agent.name) or self._agent,
        }

    def _tell(self, body: RunEventBody) -> None:
        self._publish(self._active, body)

    def _publish(self, run: ActiveRun, body: RunEventBody) -> None:
        self._runtime.publish(run_event(run, body))

    def _keep_partial(self, added: int) -> None:
        """Store the partial text, every second or 2 KB, so that a crash leaves it.

        Once 16 KB are stored, an eighth more takes the place of 2 KB: else a long answer would
        cost the square of its length.
        """
        self._since_checkpoint += added
        if self._since_checkpoint >= max(CHECKPOINT_CHARS, self._checkpointed // CHECKPOINT_SHARE):
            self._checkpoint()
        elif self._checkpoint_timer is None:  # by a timer: a model may fall silent in mid-sentence
            loop = asyncio.get_running_loop()
            self._checkpoint_timer = loop.call_later(CHECKPOINT_SECONDS, self._checkpoint)

    def _checkpoint(self) -> None:
        self._begin_checkpoint()
        run_id, partial = self._active.request.run_id, self.speaker.partial
        self._checkpointed = len(partial)
        self._runtime.store.post(lambda unit: runs.checkpoint(unit, run_id, partial))

    def _begin_checkpoint(self) -> None:
        self._since_checkpoint = self._checkpointed = 0
        if self._checkpoint_timer is not None:
            self._checkpoint_timer.cancel()
            self._checkpoint_timer = None


def unexpected(error: Exception) -> RunFailure:
    """Returns the description for people of a failure that is not the model's."""
    if isinstance(error, StateError):
        return RunFailure(error.code, f"The run could not be stored: {error}", retryable=True)
    return RunFailure("internal", "The run failed unexpectedly; see the log.")


def run_event(run: ActiveRun, body: RunEventBody) -> RunEvent:
    """Return the event of a run."""
    key = run.request.key
    return RunEvent(run.request.run_id, str(key), run.session_id, key.agent, body)
