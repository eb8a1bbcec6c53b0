"""The path of a message, on one page: ledger, route, lane, run, reply.

    platform ── receive ──┐
                          ├─ _admit: one unit ─ lane ─ Run ─ one unit ─ outbox ─ Sender
    gateway ─── submit ───┘  ledger, session,           transcript, result,
                             user entry, run            parts to deliver

A request is answered only after the COMMIT of its unit. Of two requests with the same id, the table
of active runs admits one, without an await; the unique row in the store decides across restarts.
"""

import asyncio
import logging
import uuid
from collections.abc import Awaitable, Callable
from dataclasses import dataclass, field
from typing import Final, TypeVar

import anyio
from msgspec.structs import replace

from skerry.config.messages import MessagesConfig
from skerry.config.root import Config
from skerry.hooks.events import MessageReceived
from skerry.lanes.active_runs import ActiveRun, Batch
from skerry.lanes.lanes import Lanes
from skerry.model.errors import BusyError, KeyReusedError, UnconfiguredAgentError
from skerry.model.ids import RunId, SessionKey
from skerry.model.inbound import InboundMessage, ReplyTo, normalized
from skerry.model.run import (
    BY_PARENT,
    Admission,
    AdmissionStatus,
    CompactionResult,
    RunRequest,
    RunResult,
)
from skerry.model.session import SessionSettings
from skerry.ports.dispatch import QueuedRun, QueueReport
from skerry.routing import bindings
from skerry.routing.message_context import in_context
from skerry.routing.owner import is_owner, rights
from skerry.routing.routing import session_key
from skerry.runtime.admission import Arrival, EnteredMessage, notify_session, parse_message
from skerry.runtime.channel_gate import ChannelGate, GroupState
from skerry.runtime.compaction.compactor import compact_session
from skerry.runtime.debounce import Debounce
from skerry.runtime.media_in import with_files
from skerry.runtime.queue import Queue
from skerry.runtime.reactions import acknowledges
from skerry.runtime.run_context import Runtime, run_context
from skerry.runtime.skill_use import with_skill
from skerry.runtime.withdrawal import withdraw
from skerry.sessions import session_hooks
from skerry.store import Unit, inbound, runs
from skerry.store.held_messages import HeldMessage

logger = logging.getLogger(__name__)

T = TypeVar("T")
EXCLUSIVE_SECONDS: Final = 15.0
"""Seconds that a change of a session waits for its runs to end."""


def no_write(_: Unit) -> None:
    """Adds nothing to the unit."""


@dataclass(slots=True)
class Dispatch:
    """Accepts requests to run, and stops them. Implements `ports.dispatch.Dispatcher`."""

    runtime: Runtime
    lanes: Lanes
    reach: Callable[[str], None]
    gate: ChannelGate
    _queue: Queue = field(init=False)
    _debounce: Debounce = field(init=False)
    _draining: bool = field(default=False, init=False)

    def __post_init__(self) -> None:
        self._queue = Queue(self.runtime, self.lanes)
        self._debounce = Debounce(self.runtime.store, self.lanes, self._receive_held)

    async def receive(self, arrived: InboundMessage) -> None:
        """Accepts a platform's message; after the return, the adapter may acknowledge it.

        A repeated message, and one without text and files, changes nothing. The gate refuses the
        message of a sender who is not admitted.
        """
        arrived = normalized(arrived)
        if arrived.deletes:
            await withdraw(self.runtime, arrived, self.abort)
            return
        if not arrived.text.strip() and not arrived.attachments:
            logger.info("a message without text arrived over %s", arrived.channel)
            return
        config = self.runtime.config()
        to = ReplyTo(
            arrived.channel, arrived.account, arrived.peer, arrived.message_id, arrived.thread_id
        )
        owns = is_owner(arrived, config.commands.owner_allow_from)
        author = await self.gate.admit(config, arrived, to, is_owner=owns)
        if author is None:
            return
        for number, agent in enumerate(bindings.addressees(arrived, config)):
            # The ledger has one row for each agent that a broadcast reaches.
            message_id = f"{arrived.message_id}@{agent}" if number else arrived.message_id
            message = replace(arrived, message_id=message_id) if arrived.message_id else arrived
            key = session_key(arrived, agent, config.session, is_owner=owns)
            item = HeldMessage(message, to, author, RunId(str(uuid.uuid4())))
            await self._receive(item, key, config)

    async def _receive(
        self,
        item: HeldMessage,
        key: SessionKey,
        config: Config,
        extra_write: Callable[[Unit], object] | None = None,
    ) -> None:
        """Accepts an admitted message for one agent; with an `extra_write` it was held before."""
        arrived = item.message
        may, group = rights(arrived, config.commands), self.gate.group(config, arrived, key.agent)
        request = RunRequest(
            item.run_id,
            key,
            arrived.text,
            extra_system_prompt=group.prompt,
            skills=group.skills,
            queue_mode=None,
            reply_to=item.to,
            origin=item.author,
            rights=may,
            sender=arrived.sender,
        )
        request = await with_skill(self.runtime, config, request, arrived)
        command = None if arrived.forwarded else self.runtime.commands.command_in(request)
        if command is not None and not command[0].permits(may):
            # A sender without the right gets no answer, and no model reads the text.
            await self.runtime.store.write(lambda unit: inbound.take(unit, arrived, request.run_id))
            logger.info("/%s over %s: no right to give it", command[0].name, arrived.channel)
            return
        if extra_write is None:
            is_passed_on = arrived.forwarded or arrived.passed_on
            is_apart = command is not None or request.skill is not None
            is_plain = not (is_apart or arrived.attachments or is_passed_on)
            pause = config.messages.inbound.seconds(arrived.channel)
            if await self._debounce.holds(
                item, key, pause if is_plain else 0, answers=group.answers
            ):
                return
            if command is None and not group.answers:
                if arrived.text.strip():
                    await self.gate.keep(arrived, key, group)
                return
        if command is None and arrived.attachments:
            request = await with_files(self.runtime, request, arrived, config)
        history = await self.gate.history(key, group) if command is None else ()
        mentioned = group.mentioned
        request = in_context(request, arrived, item.author, mentioned=mentioned, history=history)
        request = await parse_message(self.runtime, config, request)
        last_given = history[-1].serial if history else 0
        admission = await self._admit(request, config, arrived, extra_write or no_write, last_given)
        if admission.status is AdmissionStatus.ACCEPTED and command is None:
            self._acknowledge(item, group, config.messages)

    def _acknowledge(self, item: HeldMessage, group: GroupState, config: MessagesConfig) -> None:
        """Sets a reaction on an accepted message, if the configuration has one."""
        to = item.to
        sender = self.runtime.delivery.senders.get((to.channel, to.account))
        is_due = acknowledges(
            config, to, is_addressed=group.mentioned, must_address=group.must_mention
        )
        if sender is not None and is_due:
            emoji, remove = config.ack_reaction, config.remove_ack_after_reply
            sender.reactions.acknowledge(to, emoji, item.run_id, remove=remove)

    async def release(self) -> None:
        """Accepts the messages that an earlier process held."""
        await self._debounce.release_all()

    async def _receive_held(
        self, item: HeldMessage, key: SessionKey, extra_write: Callable[[Unit], object]
    ) -> None:
        """Accepts the held messages of a sender, joined into one."""
        await self._receive(item, key, self.runtime.config(), extra_write)

    async def submit(
        self, request: RunRequest, extra_write: Callable[[Unit], object] = no_write
    ) -> Admission:
        """Accepts the run durably, or returns the stored state of a run with the same id.

        `extra_write` is called in the unit that accepts the run.
        """
        config = self.runtime.config()
        if request.key.agent not in config.agents.ids:
            raise UnconfiguredAgentError(request.key.agent, config.agents.ids)
        request = await parse_message(self.runtime, config, request)
        while (active := self.runtime.running.get(request.run_id)) is not None:
            await active.admitted.wait()
            if not active.withdrawn:  # else the store has the id, or nothing was stored
                if runs.digest(active.request) != runs.digest(request):
                    raise KeyReusedError(request.run_id)
                return _admission(active, AdmissionStatus.IN_FLIGHT)
        return await self._admit(request, config, extra_write=extra_write)

    async def wait(self, run_id: RunId, timeout: float | None) -> RunResult | None:  # noqa: ASYNC109 - the port's signature
        """Returns the result of the run; None after `timeout` seconds, or for an unknown run."""
        with anyio.move_on_after(timeout) as waiting:
            while (active := self.runtime.running.get(run_id)) is not None:
                await active.ended.wait()
                if not active.withdrawn:  # else the store has an earlier run with this id
                    return active.result
        if waiting.cancelled_caught:
            return None
        return await self.runtime.store.read(lambda reader: runs.result(reader, run_id))

    def abort(self, key: SessionKey, run_id: RunId | None, by: str) -> list[RunId]:
        """Stops one run, or all runs of the session; returns their ids."""
        if run_id is None:
            return [*self._queue.stop(key, by), *self._stop_children(key)]
        run = self.runtime.running.get(run_id)
        if run is None or run.request.key != key or not run.abort(by):
            return []
        if not self._queue.take_back(run):
            self.lanes.look_again(str(key))
        return [run_id, *self._stop_children(key, run_id)]

    def stop(self, key: SessionKey, before: RunId, by: str) -> list[RunId]:
        """Stops all runs of the session accepted before a run; returns their ids."""
        return [*self._queue.stop(key, by, before=before), *self._stop_children(key)]

    def _stop_children(self, key: SessionKey, run_id: RunId | None = None) -> list[RunId]:
        """Stops the sub-agents of a conversation or of one of its runs, recursively."""
        stopped: list[RunId] = []
        for run in self.runtime.running.of():
            parent = run.request.parent
            if parent is None or parent.key != key or run_id not in {None, parent.run_id}:
                continue
            if run.request.run_id not in stopped:
                stopped += self.abort(run.request.key, None, BY_PARENT)
        return stopped

    def active(self, key: SessionKey | None = None) -> list[RunId]:
        """Returns the ids of the accepted runs that have not ended, oldest first."""
        return [run.request.run_id for run in self.runtime.running.of(key)]

    def line(self, key: SessionKey) -> list[QueuedRun]:
        """Returns the session's active runs, without those whose message has joined another run."""
        return [_in_line(run) for run in self.runtime.running.of(key) if run.host is None]

    def queue(self) -> QueueReport:
        """Returns the active and the waiting runs."""
        return self._queue.report()

    async def run_exclusive(
        self, key: SessionKey, work: Callable[[], Awaitable[T]], *, stopping: str | None = None
    ) -> T:
        """Runs `work` while no run of the session is active; returns its result.

        The lane is held meanwhile, so that no run begins and no message is written.
        """
        self._refuse_draining()
        if stopping is not None:
            self.abort(key, None, stopping)
        turn, released = anyio.Event(), anyio.Event()

        async def hold() -> None:
            turn.set()
            await released.wait()

        self.lanes.submit(str(key), hold, counted=False)
        try:
            with anyio.move_on_after(EXCLUSIVE_SECONDS):
                await turn.wait()
            if not turn.is_set():
                raise BusyError(f"Session {key} is still active; try again in a moment.")
            self.reach("dispatch.before-change")
            with anyio.CancelScope(shield=True):
                outcome = await work()
            self.reach("dispatch.after-change")
        finally:
            released.set()
        return outcome

    async def compact(self, key: SessionKey, instructions: str) -> CompactionResult | None:
        """Summarises the earlier part of a conversation; None if there is nothing to summarise."""
        runtime = self.runtime
        return await self.run_exclusive(key, lambda: compact_session(runtime, key, instructions))

    async def drain(self, seconds: float) -> bool:
        """Accepts and starts no more runs; returns whether the active ones ended in time.

        Runs that wait, or did not end in time, are in the store; the next start resumes them.
        """
        self._draining = True
        return await self.lanes.drain(seconds)

    def resume(self, stored: runs.OpenRun) -> None:
        """Resumes a run of an earlier process; a run that joined another joins it again."""
        active = ActiveRun(stored.request, stored.session_id, stored.accepted_at, stored.entry)
        active.admitted.set()
        host = self.runtime.running.get(stored.host) if stored.host else None
        self.runtime.running.add(active)
        if host is not None:
            host.join(active)
            if host.entry == 0:
                host.batch = Batch((*host.joined, host))
            return
        active.is_continued, active.sent = stored.left_trace, stored.delivered_text
        arrival = Arrival.of(self.runtime, self.runtime.config(), active)
        active.rules = arrival.queue(active.settings or SessionSettings())
        self._queue.put(active)

    async def _admit(
        self,
        request: RunRequest,
        config: Config,
        arrived: InboundMessage | None = None,
        extra_write: Callable[[Unit], object] = no_write,
        last_given: int = 0,
    ) -> Admission:
        self._refuse_draining()
        self.runtime.store.refuse_damaged()
        active = ActiveRun(request, accepted_at=self.runtime.clock.now_ms())
        active.arrived = asyncio.get_running_loop().time()
        self.runtime.running.add(active)
        free = self.lanes.idle(str(request.key))
        self._queue.put(active)
        message = request.message(active.accepted_at)
        arrival = Arrival.of(self.runtime, config, active, [message], arrived, last_given)
        with anyio.CancelScope(shield=True):  # the lane waits, even if the client disconnects
            try:
                outcome = await self.runtime.store.write(
                    lambda unit: (arrival.accept(unit, free=free), extra_write(unit))[0]
                )
            except BaseException:
                self._withdraw(active)
                raise
        if isinstance(outcome, runs.OpenRun | RunResult):
            self._withdraw(active)
            return _known_admission(outcome)
        outcome.apply(active)
        if isinstance(outcome, EnteredMessage):
            await notify_session(self.runtime, outcome)
        elif outcome.session_id == arrival.new_id:
            session_hooks.start(self.runtime.hooks, request.key, outcome.session_id)
        self._notify_hooks(active, config, arrived)
        active.admitted.set()
        if not free:
            await self._queue.arrange(active)
        self.reach("dispatch.accepted")
        return _admission(active, AdmissionStatus.ACCEPTED)

    def _refuse_draining(self) -> None:
        if self._draining:
            raise BusyError("The gateway is stopping; try again when it runs again.")

    def _withdraw(self, active: ActiveRun) -> None:
        self.runtime.running.withdraw(active)
        self._queue.forget(active)

    def _notify_hooks(
        self, active: ActiveRun, config: Config, arrived: InboundMessage | None
    ) -> None:
        """Calls the `message_received` hook once for each accepted message, without waiting."""
        hooks, request = self.runtime.hooks, active.request
        if not hooks.message_received.handlers:
            return
        context = run_context(request, active.session_id, config.workspace(request.key.agent))
        event = MessageReceived(
            context=context, sender="", content=request.text, timestamp=active.accepted_at
        )
        if arrived is not None:
            event = replace(
                event,
                sender=arrived.sender_id,
                account=arrived.account,
                conversation=arrived.peer.id,
                message_id=arrived.message_id,
                thread_id=arrived.thread_id,
            )
        hooks.message_received.start(event)


def _admission(active: ActiveRun, status: AdmissionStatus) -> Admission:
    return Admission(str(active.request.key), status, active.accepted_at)


def _in_line(run: ActiveRun) -> QueuedRun:
    if run.entry:
        return QueuedRun(run.request.run_id)
    says = tuple((queued.request.run_id, queued.request.text) for queued in (*run.joined, run))
    return QueuedRun(run.request.run_id, says, waits=not run.started_at)


def _known_admission(stored: runs.OpenRun | RunResult) -> Admission:
    if isinstance(stored, RunResult):
        return Admission(stored.session_key, AdmissionStatus.FINISHED, stored.started_at, stored)
    return Admission(str(stored.request.key), AdmissionStatus.IN_FLIGHT, stored.accepted_at)
