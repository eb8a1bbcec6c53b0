"""One run from its turn in the lane to its end: enter, execute, store, publish.

The unit that ends a run is outside the scope that an abort cancels; clients and senders are
notified of the end after its COMMIT.
"""

import logging
from collections.abc import Awaitable, Callable, Sequence
from typing import TypeVar

import msgspec
from msgspec import Struct

from skerry.config.root import Config
from skerry.hooks.events import AgentEnd
from skerry.lanes.active_runs import ActiveRun, ContinuedRun
from skerry.model.event import RunEnded, RunStarted
from skerry.model.message import Message, UserMessage, is_note, notice
from skerry.model.run import RunResult, StopReason
from skerry.runtime.admission import Arrival, EnteredMessage, notify_session
from skerry.runtime.conversation import CachedConversation
from skerry.runtime.finalize import (
    Block,
    Outgoing,
    add_to_outbox,
    cut_off,
    end_notices,
    for_guest,
    outgoing,
    payloads,
    settle,
    settle_failed,
    unexpected,
)
from skerry.runtime.run_context import Runtime, persisted, run_context, run_plan
from skerry.runtime.run_executor import RunExecutor
from skerry.runtime.run_hooks import TranscriptHooks
from skerry.runtime.usage.ledger import note_warned
from skerry.sessions.send_policy import sends_to
from skerry.store import Unit, outbox, runs, sessions

logger = logging.getLogger(__name__)

T = TypeVar("T")


class Run(Struct, frozen=True):
    """A stored run. Its turn in the lane calls `execute`."""

    runtime: Runtime
    active: ActiveRun
    requeue: Callable[[ActiveRun], None]
    """Gives the session's next turn to a run whose message did not enter this one in time."""

    async def execute(self) -> None:
        """Executes the run. It ends with exactly one `RunEnded`.

        If the gateway stops before, the run stays open in the store, and the next start resumes it.
        """
        active, config = self.active, self.runtime.config()  # the same for the whole run
        started_at = active.started_at = self.runtime.clock.now_ms()
        self.runtime.publish(active.event(RunStarted(started_at)))
        for guest in active.joined:
            joined = RunStarted(started_at, active.request.run_id)
            self.runtime.publish(guest.event(joined))
        prompt = active.prompt()
        writing = TranscriptHooks(self.runtime.hooks)
        try:
            conversation, prompt = await self._enter(config, prompt, writing)
        except Exception as error:
            # The run is not tried again, so any failure must be reported to its callers.
            logger.exception("run %s could not start", active.request.run_id)
            request = active.request
            ids = request.run_id, str(request.key), active.session_id
            times = started_at, self.runtime.clock.now_ms()
            failed = RunResult.without_model(ids, StopReason.ERROR, times, unexpected(error))
            self._end(await self._settle_failed(config, failed))
            return
        plan = run_plan(self.runtime, config, active)
        executor = RunExecutor(plan, conversation, writing)
        stop_reason = await executor.run(prompt)
        await self._finish(executor, writing, stop_reason, started_at)

    async def _enter(
        self, config: Config, prompt: UserMessage, writing: TranscriptHooks
    ) -> tuple[CachedConversation, UserMessage]:
        """Makes the person's message durable if it is not yet; returns the conversation and prompt.

        The prompt of a resumed run is read from the transcript, because it may have been joined
        from several messages.
        """
        active, request = self.active, self.active.request
        entries: tuple[Message, ...] = ()
        if active.is_continued:
            prompt = await self._persisted(lambda: self._entered(prompt))
            return await self._persisted(self._load_continued), prompt
        if active.entry == 0:
            workspace = config.workspace(request.key.agent)
            context = run_context(request, active.session_id, workspace)
            entries = tuple(await writing.entries([prompt], context))
        elif active.joined:
            prompt = await self._persisted(lambda: self._entered(prompt))
        return await self._persisted(lambda: self._load(config, prompt, entries)), prompt

    async def _entered(self, prompt: UserMessage) -> UserMessage:
        """Returns the prompt in the transcript."""
        active = self.active
        entries = await self.runtime.store.read(
            lambda reader: sessions.entries(
                reader, active.session_id, limit=1, before=active.entry + 1
            )
        )
        message = entries[0].message if entries else prompt
        return message if isinstance(message, UserMessage) else prompt

    async def _load(
        self, config: Config, prompt: UserMessage, entries: Sequence[Message]
    ) -> CachedConversation:
        """Writes the prompt if it is not stored; returns the conversation with the prompt."""
        active, request = self.active, self.active.request
        before, tail = active.entry, active.entry
        if active.entry == 0:
            arrival = Arrival.of(self.runtime, config, active, entries)
            guests = [guest.request.run_id for guest in active.joined]

            def enter(unit: Unit) -> EnteredMessage:
                # The conversation may have been reset or deleted while the run waited.
                entered = arrival.enter(unit)
                opened = entered.opened
                runs.enter(unit, request.run_id, opened.session_id, entered.entry)
                for guest_id in guests:
                    runs.join(unit, guest_id, request.run_id, entered.entry)
                if opened.request is not request:
                    runs.note_opening(unit, opened.request)
                return entered

            entered = await self.runtime.store.write(enter)
            entered.apply(active)
            for guest in active.joined:
                guest.session_id = active.session_id
            await notify_session(self.runtime, entered)
            before, tail = entered.tail + 1, entered.entry or entered.tail
        elif active.settings is None:
            settings = await self.runtime.store.read(
                lambda reader: sessions.settings(reader, active.session_id)
            )
            active.settings = request.settled(settings)
        cleared = active.settings.taint_cleared if active.settings else None
        conversation = await self.runtime.histories.get(active.session_id, before, cleared or 0)
        conversation.tail = max(tail, conversation.tail)
        conversation.add(prompt)
        return conversation

    async def _load_continued(self) -> CachedConversation:
        """Returns the conversation up to the last durable step of a resumed run."""
        active, store, histories = self.active, self.runtime.store, self.runtime.histories
        session_id, entry = active.session_id, active.entry
        run_ids = {active.request.run_id, *(guest.request.run_id for guest in active.joined)}
        state = await store.read(
            lambda reader: (
                sessions.entries(reader, session_id, limit=-1, after=entry),
                sessions.settings(reader, session_id),
                sessions.tail(reader, session_id),
                outbox.next_block(reader, active.request.run_id),
                outbox.open_preview(reader, active.request.run_id),
            )
        )
        entries, settings, tail, blocks, preview = state
        active.settings = active.request.settled(settings)
        conversation = await histories.get(session_id, tail + 1, settings.taint_cleared or 0)
        numbers = await histories.load(conversation, session_id, tail + 1)
        messages = [
            stored.message
            for stored in entries
            if stored.run_id in run_ids and not is_note(stored.message)
        ]
        prompt_index = numbers.index(entry) if entry in numbers else None
        active.continued = ContinuedRun(tuple(messages), prompt_index, blocks, active.sent, preview)
        return conversation

    async def _persisted(self, step: Callable[[], Awaitable[T]]) -> T:
        return await persisted(self.active.request.run_id, step)

    async def _finish(
        self,
        executor: RunExecutor,
        writing: TranscriptHooks,
        stop_reason: StopReason,
        started_at: int,
    ) -> None:
        active, conversation = self.active, executor.conversation
        notices = await executor.notices()
        result = RunResult(
            run_id=active.request.run_id,
            session_key=str(active.request.key),
            session_id=active.session_id,
            stop_reason=stop_reason,
            payloads=payloads(executor.loop.messages, executor.plan.show),
            provider=executor.speaker.provider,
            model=executor.speaker.model,
            usage=executor.speaker.usage,
            started_at=started_at,
            ended_at=self.runtime.clock.now_ms(),
            error=executor.failure,
            aborted_by=active.aborted_by if stop_reason is StopReason.ABORTED else None,
            cut_off=cut_off(executor.loop.messages),
            notices=notices,
        )

        self._notify_agent_end(executor, result)
        try:
            conversation.tail = await self._settle(executor, writing, result)
        except Exception as error:
            # A reply that is not stored must not be sent.
            logger.exception("the end of run %s could not be stored", result.run_id)
            self.runtime.histories.forget(active.session_id)
            failed = msgspec.structs.replace(
                result, stop_reason=StopReason.ERROR, payloads=(), error=unexpected(error)
            )
            result = await self._settle_failed(executor.plan.config, failed)
        conversation.forget_command()
        if writing.changed:  # the next run must load the transcript
            self.runtime.histories.forget(active.session_id)
        self._end(result)

    async def _settle(
        self, executor: RunExecutor, writing: TranscriptHooks, result: RunResult
    ) -> int:
        """Stores the end, after its hooks; returns the transcript's new tail."""
        hooks, context = self.runtime.hooks, executor.plan.hooks
        replying = executor.replying
        outgoing_blocks, first = Outgoing(), 0
        warned = self.runtime.ledger.warn(self.active.request)
        tail = executor.conversation.tail
        guests = [guest.request.run_id for guest in self.active.joined]
        if replying is not None:
            blocks = await replying.finish(result, executor.loop.messages)
            if warned is not None:
                blocks.append(Block(warned.text))
            first = replying.blocks
            parts = self.runtime.delivery.parts
            outgoing_blocks = await outgoing(
                hooks, context, blocks, replying.to, parts, replying.attach
            )
        unsaved = await writing.entries(executor.loop.unsaved, context)
        if warned is not None:
            unsaved = [*unsaved, notice(warned.text, result.ended_at)]
            self.runtime.histories.forget(self.active.session_id)  # the notice is not for the model

        def end(unit: Unit) -> int:
            if warned is not None:
                note_warned(unit, warned)
            add_to_outbox(unit, result, outgoing_blocks, first)
            return settle(unit, result, tail, unsaved, guests)

        return await self._persisted(lambda: self.runtime.store.write(end))

    async def _settle_failed(self, config: Config, result: RunResult) -> RunResult:
        """Stores the failure of the run and the notice about it; returns `result`.

        If even that fails, the run stays open, and the next start resumes it.
        """
        active, request, entry = self.active, self.active.request, self.active.entry
        guests = [guest.request.run_id for guest in active.joined]
        policy = config.session.send_policy
        to = sends_to(policy, active.settings, request.key, request.reply_to)
        try:
            outgoing_blocks = Outgoing()
            if to is not None:
                context = run_context(active.request, active.session_id)
                outgoing_blocks = await outgoing(
                    self.runtime.hooks,
                    context,
                    end_notices(result),
                    to,
                    self.runtime.delivery.parts,
                )

            def end(unit: Unit) -> None:
                if outgoing_blocks:
                    first = outbox.next_block(unit, result.run_id)
                    add_to_outbox(unit, result, outgoing_blocks, first)
                settle_failed(unit, result, entry, guests)

            await self._persisted(lambda: self.runtime.store.write(end))
        except Exception:
            logger.exception("run %s stays open in the store", result.run_id)
        return result

    def _notify_agent_end(self, executor: RunExecutor, result: RunResult) -> None:
        """Calls the `agent_end` hook without waiting for it."""
        point = self.runtime.hooks.agent_end
        if not point.handlers:
            return
        point.start(
            AgentEnd(
                context=executor.plan.hooks,
                messages=tuple(executor.conversation.history.messages),
                new_messages=tuple(executor.loop.messages),
                success=result.stop_reason is StopReason.DONE,
                error=result.error.message if result.error else None,
                duration_ms=max(result.ended_at - result.started_at, 0),
            )
        )

    def _end(self, result: RunResult) -> None:
        """Publishes the end, and queues the messages that did not enter as separate runs."""
        active = self.active
        for guest in reversed(active.empty_mailbox()):
            self.requeue(guest)
        for run in (active, *active.joined):
            ended = result if run is active else for_guest(result, run.request.run_id)
            self.runtime.running.finish(run, ended)
            self.runtime.publish(run.event(RunEnded(ended)))
        if active.request.reply_to is not None:
            self.runtime.delivery.wake(active.request.reply_to)
