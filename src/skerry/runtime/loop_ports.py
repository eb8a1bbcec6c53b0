"""Implements the ports of the loop for one run: events, transcript, mailbox, tools, responses."""

import asyncio
from collections.abc import Sequence
from typing import Final

import anyio
from msgspec.structs import replace

from skerry.commands.table import Command, answer, tell_command
from skerry.config.protected import gate
from skerry.infra.rooted_fs import RootedFolder
from skerry.lanes.active_runs import ActiveRun
from skerry.model.event import (
    LoopEvent,
    MessageUpdate,
    MessageWithdrawn,
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
from skerry.model.memory import KnownMessages
from skerry.model.message import (
    AssistantMessage,
    Message,
    TextBlock,
    ToolCall,
    ToolResultMessage,
    UserMessage,
    command_answer,
)
from skerry.model.origin import Origin
from skerry.model.outbound import Content
from skerry.policy.decide import Actor
from skerry.policy.effect import ToolEffect
from skerry.policy.loop_detection import CallHistory
from skerry.policy.tool_policy import ToolPolicy
from skerry.ports.model import ModelInfo, ModelRequest
from skerry.ports.tool import Assessment, ToolContext
from skerry.runtime import tool_calls
from skerry.runtime.block_streaming import BlockStreamer
from skerry.runtime.call_approvals import RunApprovals
from skerry.runtime.continuation import going_on
from skerry.runtime.conversation import CachedConversation, examined
from skerry.runtime.late import media_out
from skerry.runtime.model_call import ModelCall, ResponseDraft
from skerry.runtime.request_builder import RequestBuilder
from skerry.runtime.run_context import RunPlan, command_call, run_context
from skerry.runtime.run_hooks import RunHooks, TranscriptHooks
from skerry.runtime.tool_calls import CallGate, SessionRecall, refusal
from skerry.runtime.tool_results import CallProgress, result_message
from skerry.runtime.usage.usage_limits import RunMeter
from skerry.store import Unit, runs, sessions

CHECKPOINT_SECONDS: Final = 1.0
CHECKPOINT_CHARS: Final = 2048
CHECKPOINT_SHARE: Final = 8
"""Divisor: a long text is stored again after growing by an eighth, as a checkpoint writes all."""


class RunEvents:
    """Publishes the events of the loop, and stores the partial text of a response."""

    def __init__(self, plan: RunPlan, draft: ResponseDraft, replying: BlockStreamer | None) -> None:
        self._runtime = plan.runtime
        self._active = plan.active
        self._draft = draft
        self._replying = replying
        self._since_checkpoint = 0
        self._checkpointed = 0
        self._checkpoint_timer: asyncio.TimerHandle | None = None

    def emit(self, event: LoopEvent) -> None:
        """Publishes an event of the loop to clients and to the platform of the message."""
        if self._replying is not None:
            self._replying.on_event(event, self._draft.marks)
        match event:
            case MessageUpdate(delta):
                self.publish(TextDelta(delta))
                self._keep_partial(len(delta))
            case ThinkingUpdate(delta):
                self.publish(ThinkingDelta(delta))
            case MessageWithdrawn():
                self.publish(TextWithdrawn())
                self.begin_checkpoint()
            case ToolExecutionStart(call):
                self.publish(ToolStarted(call.id, call.name, call.arguments))
            case ToolExecutionEnd(call, result):
                error, text, details = result.is_error, result.text, result.details
                self.publish(ToolFinished(call.id, call.name, error, text, details))
            case TurnEnd():
                self.publish(TextEnded())

    def publish(self, body: RunEventBody) -> None:
        """Sends an event of the run to its clients."""
        self._runtime.publish(self._active.event(body))

    def begin_checkpoint(self) -> None:
        """Counts the characters of the next checkpoint from zero."""
        self._since_checkpoint = self._checkpointed = 0
        if self._checkpoint_timer is not None:
            self._checkpoint_timer.cancel()
            self._checkpoint_timer = None

    def _keep_partial(self, added: int) -> None:
        """Stores the partial text every second or 2 KB, so that it survives a crash.

        Above 16 KB it is stored after an eighth more instead of 2 KB: otherwise the cost of a long
        answer would grow with the square of its length.
        """
        self._since_checkpoint += added
        if self._since_checkpoint >= max(CHECKPOINT_CHARS, self._checkpointed // CHECKPOINT_SHARE):
            self._checkpoint()
        elif self._checkpoint_timer is None:  # a timer, because a model may pause for long
            loop = asyncio.get_running_loop()
            self._checkpoint_timer = loop.call_later(CHECKPOINT_SECONDS, self._checkpoint)

    def _checkpoint(self) -> None:
        self.begin_checkpoint()
        run_id, partial = self._active.request.run_id, self._draft.text
        self._checkpointed = len(partial)
        self._runtime.store.post(lambda unit: runs.checkpoint(unit, run_id, partial))


class RunTranscript:
    """Writes the messages of a run after the conversation's last entry."""

    def __init__(
        self,
        plan: RunPlan,
        conversation: CachedConversation,
        writing: TranscriptHooks,
        replying: BlockStreamer | None,
    ) -> None:
        self._plan = plan
        self._conversation = conversation
        self._writing = writing
        self._replying = replying

    async def save(self, messages: Sequence[Message], guest: ActiveRun | None = None) -> None:
        """Makes messages durable; with a `guest`, the last message is the guest's."""
        plan, runtime, active = self._plan, self._plan.runtime, self._plan.active
        run_id, session_id = active.request.run_id, active.session_id
        tail = self._conversation.tail
        run_messages: Sequence[Message] = messages if guest is None else messages[:-1]
        last: Sequence[Message] = ()
        guest_id, spoken_at = None, 0
        if guest is not None:
            guest_id = guest.request.run_id
            limited = runtime.limits(guest.request, plan.config) is not None
            spoken_at = guest.accepted_at if limited else 0

        with anyio.CancelScope(shield=True):  # an abort must not lose the number of the last entry
            if self._replying is not None:
                await self._replying.settle()
            entries = await self._writing.entries(run_messages, plan.hooks)
            if guest is not None:
                context = run_context(guest.request, guest.session_id, plan.workspace)
                last = await self._writing.entries(messages[-1:], context)
            now = runtime.clock.now_ms()

            def write(unit: Unit) -> int:
                end = (
                    sessions.append(unit, session_id, tail, run_id, entries, now)
                    if entries
                    else tail
                )
                runs.note_effect(unit, run_id)
                if guest_id is not None:
                    if last:
                        end = sessions.append(
                            unit, session_id, end, guest_id, last, now, person_wrote_at=spoken_at
                        )
                    runs.join(unit, guest_id, run_id, end)
                return end

            self._conversation.tail = await runtime.store.write(write)
        if guest is not None:
            active.join(guest)


class RunMailbox:
    """Passes messages that wait for the run to its loop."""

    def __init__(self, plan: RunPlan, transcript: RunTranscript, limits: RunMeter) -> None:
        self._runtime = plan.runtime
        self._active = plan.active
        self._transcript = transcript
        self._limits = limits

    async def steering(self, unsaved: Sequence[Message]) -> Sequence[UserMessage]:
        """Returns the next waiting message, one at a time (the default of pi-agent-core).

        It stays in the mailbox until it is durable, in case this run ends before. The message of an
        aborted run stays there and is ended in a separate turn.
        """
        for guest in tuple(self._active.steering):
            if guest.aborted_by is not None or self._limits.reached():
                continue
            entered = guest.request.message(guest.accepted_at)
            if guest.turn is not None:  # it still gets a separate turn
                await self._transcript.save([*unsaved, entered])
                guest.entered = True
            else:
                await self._transcript.save([*unsaved, entered], guest)
                started = RunStarted(self._runtime.clock.now_ms(), self._active.request.run_id)
                self._runtime.publish(guest.event(started))
            self._active.steering.remove(guest)
            return [entered]
        return []

    async def follow_ups(self, unsaved: Sequence[Message]) -> Sequence[UserMessage]:
        """Returns the last waiting message; a later one gets a separate turn."""
        entered = await self.steering(unsaved)
        if not entered:
            self._active.working = False  # no message may enter a loop that has decided to stop
        return entered


class RunTools:
    """Runs the tool calls of a run, within its rights and its limits."""

    def __init__(
        self,
        plan: RunPlan,
        conversation: CachedConversation,
        pipeline: RunHooks,
        limits: RunMeter,
        speaker: ModelCall,
    ) -> None:
        self._plan = plan
        self._conversation = conversation
        self._pipeline = pipeline
        self._limits = limits
        self._speaker = speaker
        self._history: CallHistory | None = None
        self._media: media_out.AnswerMedia | None = None

    async def attach(self, text: str, voice: bool) -> list[str | Content]:  # noqa: FBT001 - as `finalize.Attach`
        """Returns the contents of an answer in order: texts, and the files that it names."""
        if not self._plan.files.references:
            return [text]
        if self._media is None:
            self._media = media_out.AnswerMedia(self._plan, self.context, self._layers)
        return await self._media.contents(text, voice=voice)

    async def execute(self, call: ToolCall) -> ToolResultMessage:
        """Returns the result of a call, which may be a refusal or a failure."""
        self._limits.tool()
        return await self._pipeline.tool(call, self._execute)

    async def _execute(self, call: ToolCall) -> ToolResultMessage:
        """Executes a call with its final arguments; a repetition that must stop is refused."""
        history, at = self._calls(), self._plan.runtime.clock.now_ms()
        repetition = history.judge(call.name, call.arguments)
        if repetition is not None and repetition.is_blocked:
            assessment = Assessment(ToolEffect.DENY, repetition.rule, repetition.text)
            refused = replace(refusal(call.name, assessment), origin=Origin.LOCAL)
            return result_message(call, refused, at)
        result = await self._call(call, at)
        history.record(call.name, call.arguments, result.text.encode())
        if repetition is None:
            return result
        return replace(result, content=(*result.content, TextBlock(f"[{repetition.text}]")))

    def _calls(self) -> CallHistory:
        """Returns the calls of this run; most runs make none."""
        if self._history is None:
            config, agent = self._plan.config, self._plan.caller.key.agent
            entry = config.agents.by_id.get(agent)
            self._history = CallHistory(config.tools.loops(entry.tools if entry else None))
        return self._history

    async def _call(self, call: ToolCall, at: int) -> ToolResultMessage:
        plan, runtime = self._plan, self._plan.runtime
        progress = CallProgress(call, lambda body: runtime.publish(plan.active.event(body)))
        context = replace(self.context(), progress=progress)
        active = plan.active
        model = (self._speaker.provider, self._speaker.model)  # tools depend on the fall-back too
        asks = RunApprovals(runtime.approvals, active) if runtime.approvals else None
        layers = self._layers()
        call_gate = CallGate(active.request.run_id, active.session_id, layers, asks, model)
        try:
            result = await runtime.supervisor.call(
                lambda: tool_calls.execute(call, runtime.tools, context, at, call_gate),
                f"tool {call.name}",
            )
        finally:
            progress.end()
        return await examined(result)

    def _layers(self) -> ToolPolicy:
        """Returns the configuration's present layers on the tools of the run."""
        plan = self._plan
        model = (self._speaker.provider, self._speaker.model)
        joined = [guest.request.sender for guest in plan.active.joined]
        return plan.runtime.tools.layers(plan.caller, plan.config, model, joined)

    def context(self) -> ToolContext:
        """Makes the context of a tool call; costs half a millisecond."""
        plan, conversation = self._plan, self._conversation
        read = conversation.taint
        range_ = KnownMessages.of(plan.caller.key, conversation.sent)
        actor, key = Actor.of(plan.caller, read), str(plan.caller.key)
        rules = gate(plan.config, actor, plan.runtime.records, key)
        recall = SessionRecall(plan.runtime.store, plan.active)
        request = plan.active.request
        return ToolContext(
            RootedFolder(plan.workspace, rules),
            recall,
            plan.caller,
            read,
            range_,
            str(request.run_id),
            request=request,
        )


class Responder:
    """Produces each response: by a command, by the gateway at a limit, or by a model."""

    def __init__(
        self,
        plan: RunPlan,
        speaker: ModelCall,
        requests: RequestBuilder,
        limits: RunMeter,
        pipeline: RunHooks,
        events: RunEvents,
    ) -> None:
        self._plan = plan
        self._speaker = speaker
        self._requests = requests
        self._limits = limits
        self._pipeline = pipeline
        self._events = events
        self.status: tuple[str, ...] = ()
        """The answer to a `/status` within the message, if there is one."""

    async def respond(self) -> AssistantMessage:
        """Returns the next response to the history; one that failed has stop reason `error`."""
        speaker, requests = self._speaker, self._requests
        try:
            if self._plan.command is not None:
                return await self._answer(*self._plan.command)
            if stopped := self._limits.stops():
                return speaker.gateway_message(stopped)
            if not requests.begun:
                await self._report_status()
                speaker.reference = await self._pipeline.resolve(
                    requests.prompt.text, speaker.reference, self._plan.runtime.models
                )
            if speaker.resumed:  # clients that connect now have not received it
                self._events.publish(TextDelta(speaker.resumed))
            response = await speaker.respond(self._request)
            while await requests.too_long(speaker.failure, response):
                response = await speaker.respond(self._request)
            speaker.failure = requests.given_up(speaker.failure)
            response = await self._pipeline.llm_output(response)
            return self._limits.admitted(response)
        finally:
            self._events.begin_checkpoint()

    async def _request(self, model: ModelInfo) -> ModelRequest:
        request = await self._requests.request(model)
        sent = self._speaker.resumed
        return going_on(request, sent) if sent else request

    async def _answer(self, command: Command, arguments: str) -> AssistantMessage:
        """Returns the answer to the command in the prompt."""
        runtime, active = self._plan.runtime, self._plan.active
        call = command_call(active, command, arguments, self._requests.compact)
        tell_command(runtime.hooks, call, active.session_id)
        subject = f"command /{command.name}"
        text = await runtime.supervisor.call(lambda: answer(command, call), subject)
        self._events.emit(MessageUpdate(text))
        return command_answer(text, runtime.clock.now_ms())

    async def _report_status(self) -> None:
        active, status = self._plan.active, self._plan.runtime.commands.find("status")
        inline = active.request.inline
        if inline is not None and inline.status and status is not None:
            self.status = (await answer(status, command_call(active, status)),)
