"""The way of a message, on one page: ledger, route, lane, run, reply.

    platform ── receive ──┐
                          ├─ _admit: one unit ─ lane ─ Run ─ one unit ─ outbox ─ Sender
    gateway ─── submit ───┘  ledger, session,           transcript, result,
                             user entry, run            parts to deliver

A request is answered only after the COMMIT of its unit. Two requests with one id race for the table
of active runs first, which is decided before the first await, and for the unique row second.
"""

import asyncio
import logging
import uuid
from collections.abc import Awaitable, Callable
from dataclasses import dataclass, field
from typing import TYPE_CHECKING, Final, TypeVar

import anyio
from msgspec.structs import replace

from skerry.hooks.events import MessageReceived
from skerry.lanes.backlog import Batch
from skerry.lanes.lanes import Lanes
from skerry.lanes.running import ActiveRun
from skerry.model.errors import BusyError, KeyReusedError, UnknownAgentError
from skerry.model.ids import RunId, SessionId, SessionKey
from skerry.model.inbound import InboundMessage, ReplyTo, well_formed
from skerry.model.origin import Origin
from skerry.model.run import Admission, AdmissionStatus, Compacted, RunRequest, RunResult
from skerry.ports.dispatch import InLine, QueueReport
from skerry.runtime.caller_context import run_context
from skerry.runtime.queue import Queue
from skerry.runtime.services import Runtime
from skerry.store import Unit, inbound, runs, sessions

if TYPE_CHECKING:
    from skerry.runtime.admission import Entered

logger = logging.getLogger(__name__)

T = TypeVar("T")
ALONE_SECONDS: Final = 15.0
"""Seconds that a change of a session waits for its runs to end."""
_STOPPING: Final = "The gateway is stopping; try again when it is back."


@dataclass(slots=True)
class Dispatch:
    """Takes requests to run and answers for them. Implements `ports.dispatch.Dispatcher`."""

    runtime: Runtime
    lanes: Lanes
    reach: Callable[[str], None]
    _queue: Queue = field(init=False)
    _draining: bool = field(default=False, init=False)

    def __post_init__(self) -> None:
        self._queue = Queue(self.runtime, self.lanes)

    async def receive(self, arrived: InboundMessage) -> None:
        """Take a platform's message; when this returns, the platform may be told that we have it.

        A message that was taken before changes nothing, and one without words asks for nothing.
        """
        if not arrived.text.strip():
            logger.info("a message without text arrived over %s", arrived.channel)
            return
        # What only a message needs is imported with the first, here and below.
        from skerry.routing import bindings  # noqa: PLC0415 - as said above
        from skerry.routing.owner import is_owner, rights  # noqa: PLC0415 - as said above
        from skerry.routing.routing import session_key  # noqa: PLC0415 - as said above

        config = self.runtime.config()
        agents = config.agents
        place = bindings.Origin.of(arrived)
        found = bindings.route(place, config.bindings, agents.ids, agents.default_id)
        may = rights(arrived, config.commands)
        owns = is_owner(arrived, config.commands.owner_allow_from)
        key = session_key(arrived, found.agent, config.session, is_owner=owns)
        to = ReplyTo(
            arrived.channel, arrived.account, arrived.peer, arrived.message_id, arrived.thread_id
        )
        request = RunRequest(
            RunId(str(uuid.uuid4())),
            key,
            well_formed(arrived.text),
            queue_mode=None,
            reply_to=to,
            origin=Origin.OWNER if owns else Origin.STRANGER,
            rights=may,
        )
        command = self.runtime.commands.given(request)
        if command is not None and not command[0].permits(may):
            # Whoever may not give it hears nothing, and no model reads it as words.
            await self.runtime.store.write(lambda unit: inbound.take(unit, arrived, request.run_id))
            logger.info("/%s of %s is not theirs to give", command[0].name, arrived.channel)
            return
        await self._admit(await self._understood(request), arrived)

    async def submit(self, request: RunRequest) -> Admission:
        """Accept the run durably, or say what is already known of its id."""
        known = self.runtime.config().agents.ids
        if request.key.agent not in known:
            raise UnknownAgentError(request.key.agent, known)
        request = await self._understood(request)
        while (active := self.runtime.running.get(request.run_id)) is not None:
            await active.admitted.wait()
            if not active.withdrawn:  # else the store knows the id, or has nothing of it
                if runs.digest(active.request) != runs.digest(request):
                    raise KeyReusedError(request.run_id)
                return _admission(active, AdmissionStatus.IN_FLIGHT)
        return await self._admit(request)

    async def wait(self, run_id: RunId, timeout: float | None) -> RunResult | None:  # noqa: ASYNC109 - the port's signature
        """Return how the run ended; None after `timeout` seconds, or when nobody knows the run."""
        with anyio.move_on_after(timeout) as waiting:
            while (active := self.runtime.running.get(run_id)) is not None:
                await active.ended.wait()
                if not active.withdrawn:  # else its id was known already; the store answers
                    return active.result
        if waiting.cancelled_caught:
            return None
        return await self.runtime.store.read(lambda reader: runs.result(reader, run_id))

    def abort(self, key: SessionKey, run_id: RunId | None, by: str) -> list[RunId]:
        """Stop one run, or all of the session; return the ids of those that will stop."""
        if run_id is None:
            return self._queue.stop(key, by)
        run = self.runtime.running.get(run_id)
        if run is None or run.request.key != key or not run.abort(by):
            return []
        if not self._queue.take_back(run):
            self.lanes.look_again(str(key))
        return [run_id]

    def stop(self, key: SessionKey, before: RunId, by: str) -> list[RunId]:
        """Stop all of the session that was accepted before a run; return what will stop."""
        return self._queue.stop(key, by, before=before)

    def active(self, key: SessionKey | None = None) -> list[RunId]:
        """Return the runs that are accepted and not ended, oldest first."""
        return [run.request.run_id for run in self.runtime.running.of(key)]

    def line(self, key: SessionKey) -> list[InLine]:
        """Return the session's active runs, less those whose message has entered another."""
        return [_in_line(run) for run in self.runtime.running.of(key) if run.host is None]

    def queue(self) -> QueueReport:
        """Returns the active and the waiting runs."""
        return self._queue.report()

    async def alone(
        self, key: SessionKey, work: Callable[[], Awaitable[T]], *, stopping: str | None = None
    ) -> T:
        """Runs `work` while no run of the session is active; returns its result.

        The lane is held meanwhile, so that no run begins and no message is written.
        """
        self._refuse_draining()
        if stopping is not None:
            self.abort(key, None, stopping)
        turn, done = anyio.Event(), anyio.Event()

        async def hold() -> None:
            turn.set()
            await done.wait()

        self.lanes.submit(str(key), hold, counted=False)
        try:
            with anyio.move_on_after(ALONE_SECONDS):
                await turn.wait()
            if not turn.is_set():
                raise BusyError(f"Session {key} is still active; try again in a moment.")
            self.reach("dispatch.before-change")
            with anyio.CancelScope(shield=True):
                outcome = await work()
            self.reach("dispatch.after-change")
        finally:
            done.set()
        return outcome

    async def compact(self, key: SessionKey, instructions: str) -> Compacted | None:
        """Summarise the earlier part of a conversation; None where there is nothing to."""
        # Imported here: few gateways are asked for it.
        from skerry.runtime.compaction.manual import compact_session  # noqa: PLC0415

        return await self.alone(key, lambda: compact_session(self.runtime, key, instructions))

    async def drain(self, seconds: float) -> bool:
        """Accept and start nothing more, let what runs end; return whether it did in time.

        What waits, or did not end, is in the store, and the next start takes it up.
        """
        self._draining = True
        return await self.lanes.drain(seconds)

    def resume(self, found: runs.OpenRun) -> None:
        """Take up a run that an earlier process accepted; the runs that joined it come after it."""
        active = ActiveRun(found.request, found.session_id, found.accepted_at, found.entry)
        active.admitted.set()
        running = self.runtime.running
        host = running.get(found.host) if found.host else None
        running.add(active)
        if host is not None:
            host.join(active)
            if host.entry == 0:
                host.batch = Batch((*host.joined, host))
            return
        active.goes_on, active.sent = found.left_trace, found.said
        active.rules = self._queue.rules(active)
        self._queue.put(active)

    async def _understood(self, request: RunRequest) -> RunRequest:
        from skerry.runtime.message_parser import understood  # noqa: PLC0415 - only messages need it

        return await understood(self.runtime, request)

    async def _admit(self, request: RunRequest, arrived: InboundMessage | None = None) -> Admission:
        from skerry.runtime import admission  # noqa: PLC0415 - only messages need it

        self._refuse_draining()
        self.runtime.store.refuse_damaged()
        active = ActiveRun(request, accepted_at=self.runtime.clock.now_ms())
        active.arrived = asyncio.get_running_loop().time()
        self.runtime.running.add(active)
        free = self.lanes.idle(str(request.key))
        self._queue.put(active)
        new_id = SessionId(str(uuid.uuid4()))
        with anyio.CancelScope(shield=True):  # the lane waits for the outcome, whoever hangs up
            try:
                found = await self.runtime.store.write(
                    lambda unit: self._accept(unit, active, arrived, new_id, free=free)
                )
            except BaseException:
                self._withdraw(active)
                raise
        match found:
            case runs.OpenRun() | RunResult():
                self._withdraw(active)
                return _known(found)
            case admission.Entered():
                found.apply(active)
                await admission.tell(self.runtime, found)
            case session_id:
                active.session_id = session_id
                if session_id == new_id:
                    self._began(request.key, session_id)
        self._tell(active, arrived)
        active.admitted.set()
        if not free:
            await self._queue.arrange(active)
        self.reach("dispatch.accepted")
        return _admission(active, AdmissionStatus.ACCEPTED)

    def _refuse_draining(self) -> None:
        if self._draining:
            raise BusyError(_STOPPING)

    def _began(self, key: SessionKey, session_id: SessionId) -> None:
        from skerry.sessions import lifecycle  # noqa: PLC0415 - only messages need it

        lifecycle.start(self.runtime.hooks, key, session_id)

    def _withdraw(self, active: ActiveRun) -> None:
        self.runtime.running.withdraw(active)
        self._queue.forget(active)

    def _tell(self, active: ActiveRun, arrived: InboundMessage | None) -> None:
        """Let plugins see what was accepted, each message once; nothing waits for them."""
        hooks, request = self.runtime.hooks, active.request
        if not hooks.message_received.handlers:
            return
        context = run_context(
            request, active.session_id, self.runtime.config().workspace(request.key.agent)
        )
        heard = MessageReceived(
            context=context, sender="", content=request.text, timestamp=active.accepted_at
        )
        if arrived is not None:
            heard = replace(
                heard,
                sender=arrived.sender_id,
                account=arrived.account,
                conversation=arrived.peer.id,
                message_id=arrived.message_id,
                thread_id=arrived.thread_id,
            )
        hooks.message_received.start(heard)

    def _accept(
        self,
        unit: Unit,
        active: ActiveRun,
        arrived: InboundMessage | None,
        new_id: SessionId,
        *,
        free: bool,
    ) -> "runs.OpenRun | RunResult | Entered | SessionId":
        """Write what accepting means; return what is known if the id, or message, is not new.

        Else return where the message stands, or, while it waits, the session that it waits for.
        `free`: nothing else writes the transcript, so the user's entry may stand there at once.
        """
        request = active.request
        run_id = request.run_id
        if arrived is not None:
            earlier = inbound.take(unit, arrived, run_id)
            run_id = earlier or run_id
        known = runs.find(unit, run_id)
        if known is not None:
            if arrived is None and runs.says_other(unit, request):
                raise KeyReusedError(run_id)
            return known
        if request.expected is not None:
            sessions.expect(unit, request.key, request.expected)
        at = active.accepted_at
        # One that hooks look at is written when the run starts: accepting waits for nobody.
        if not free or self.runtime.hooks.before_message_write.handlers:
            session_id, _ = sessions.ensure(unit, request.key, new_id, at)
            if not free:
                active.settings = request.settled(sessions.settings(unit, session_id))
                active.rules = self._queue.rules(active)
                active.request = request = replace(request, queue_mode=active.rules.mode)
            runs.add(unit, request, session_id, 0, at)
            return session_id
        from skerry.runtime import admission  # noqa: PLC0415 - only messages need it

        entered = admission.write(unit, self.runtime, active, [request.said(at)], new_id)
        opened = entered.opened
        runs.add(unit, opened.request, opened.session_id, entered.entry, at)
        return entered


def _admission(active: ActiveRun, status: AdmissionStatus) -> Admission:
    return Admission(str(active.request.key), status, active.accepted_at)


def _in_line(run: ActiveRun) -> InLine:
    if run.entry:
        return InLine(run.request.run_id)
    says = tuple((one.request.run_id, one.request.text) for one in (*run.joined, run))
    return InLine(run.request.run_id, says, waits=not run.started_at)


def _known(known: runs.OpenRun | RunResult) -> Admission:
    if isinstance(known, RunResult):
        return Admission(known.session_key, AdmissionStatus.FINISHED, known.started_at, known)
    return Admission(str(known.request.key), AdmissionStatus.IN_FLIGHT, known.accepted_at)
