"""Approvals of tool calls: asks people, takes their answers, and wakes the calls.

Each step is a unit of the store before it is acted upon; of two answers the first is one.
"""

import hashlib
import logging
import uuid
from collections.abc import Callable, Generator
from contextlib import AbstractAsyncContextManager, contextmanager, nullcontext
from typing import Any, Final

import anyio
import msgspec
from msgspec import Struct, field
from msgspec.structs import replace

from skerry.infra.clock import Clock
from skerry.model.approval import (
    EXPIRES_MS,
    ApprovalNotOpenError,
    ApprovalState,
    NoPatternError,
    Verdict,
)
from skerry.model.escape import escaped
from skerry.model.ids import RunId
from skerry.model.inbound import ReplyTo
from skerry.model.origin import Origin
from skerry.model.outbound import Additions, Button, Content
from skerry.model.run import RunRequest
from skerry.ports.approval import PendingCall
from skerry.runtime.delivery import Senders
from skerry.store import Store, Unit, approvals, no_fault, outbox
from skerry.store.approvals import ApprovalView, ApprovedCall, StoredApproval

logger = logging.getLogger(__name__)

MAX_PENDING: Final = 100
"""Approvals that may wait for people at once; a further call is denied."""
_BACKTICK: Final = "\\u{60}"
"""Escape of a backtick, which would end the code that a command is shown in; some platforms show
another sign there."""
ABORTED: Final = "abort"
"""Name of whoever denied the calls of a run that was aborted."""


class ApprovalDesk(Struct):
    """Approvals of all runs. Each change of one is a unit of the store."""

    store: Store
    clock: Clock
    outside: Callable[[str], AbstractAsyncContextManager[None]] = lambda _: nullcontext()
    """Gives the slot of a session's job to others for a block."""
    reach: Callable[[str], None] = no_fault
    """Called at each named fault point."""
    redact: Callable[[str], str] = str
    """Takes secrets out of what a person is shown."""
    delivery: Senders | None = None
    """Senders of the platforms, for requests to the chats that make the calls."""
    reaches: list[Callable[[StoredApproval], bool]] = field(default_factory=list)
    """Each returns whether it reaches somebody who could answer; called before `requested`."""
    requested: list[Callable[[StoredApproval], None]] = field(default_factory=list)
    """Called with each new approval."""
    resolved: list[Callable[[StoredApproval], None]] = field(default_factory=list)
    """Called with each approval that was answered or has expired."""
    changed: anyio.Event = field(default_factory=anyio.Event)
    """Set when there is something to do for the calls that no run waits for."""
    waiting: dict[str, anyio.Event] = field(default_factory=dict)
    """Events that wake the calls that wait inside their runs, by approval."""

    async def pending(self) -> list[StoredApproval]:
        """Returns the approvals that a person can answer, oldest first."""
        now = self.clock.now_ms()
        return await self.store.read(lambda reader: approvals.pending(reader, now))

    def reaches_somebody(self, approval: StoredApproval) -> bool:
        """Returns whether somebody who could answer is connected, or can be asked in a chat."""
        return self.chat(approval) is not None or any(reaches(approval) for reaches in self.reaches)

    def chat(self, approval: StoredApproval) -> ReplyTo | None:
        """Returns the chat that is asked: that of the run, where its owner speaks."""
        request = approval.stored.request if approval.stored else None
        if request is None or request.origin is not Origin.OWNER or self.delivery is None:
            return None
        to = request.reply_to
        return to if to and (to.channel, to.account) in self.delivery.senders else None

    def ask_chat(self, unit: Unit, approval: StoredApproval) -> None:
        """Adds the request for the chat to the outbox, in the unit of the approval."""
        to = self.chat(approval)
        if to is None or self.delivery is None:
            return
        texts = self.delivery.parts(to, chat_text(approval))
        last = Content(texts[-1], Additions(buttons=(buttons(approval),)))
        parts: list[str | Content] = [*texts[:-1], last]
        run_id = RunId(f"approval-request-{approval.id}")
        outbox.add(unit, run_id, 0, to, parts, approval.created_at)

    @contextmanager
    def listening(
        self,
        reaches: Callable[[StoredApproval], bool],
        requested: Callable[[StoredApproval], None],
        resolved: Callable[[StoredApproval], None],
    ) -> Generator[None]:
        """Calls the listeners during the block."""
        parts: tuple[tuple[list[Any], Any], ...] = (
            (self.reaches, reaches),
            (self.requested, requested),
            (self.resolved, resolved),
        )
        for listeners, listener in parts:
            listeners.append(listener)
        try:
            yield
        finally:
            for listeners, listener in parts:
                listeners.remove(listener)

    async def find(self, approval_id: str) -> StoredApproval | None:
        """Returns the approval, whatever its state; None if there is none with this id."""
        return await self.store.read(lambda reader: approvals.get(reader, approval_id))

    async def request(self, approval: StoredApproval) -> None:
        """Adds an approval that a client asks for and whose call the client makes.

        Raises:
            ApprovalNotOpenError: the id is in use, or too many approvals are pending.
        """

        def write(unit: Unit) -> None:
            if (same := approvals.get(unit, approval.id)) is not None:
                raise ApprovalNotOpenError(approval.id, same.state)
            if approvals.counted(unit) >= MAX_PENDING:
                raise ApprovalNotOpenError(approval.id, None)
            approvals.add(unit, approval, "", "")

        await self.store.write(write)
        self.ask_people(approval)

    def ask_people(self, approval: StoredApproval) -> None:
        """Notifies listeners of a new approval, and the chat that makes the call."""
        to = self.chat(approval)
        if to is not None and self.delivery is not None:
            self.delivery.wake(to)
        for listener in self.requested:
            listener(approval)
        self.wake()

    async def decided(self, approval_id: str, seconds: float) -> StoredApproval:
        """Returns the approval once it is no longer pending, or as it is after the time.

        Raises:
            ApprovalNotOpenError: there is none with this id.
        """
        answered = anyio.Event()

        def listen(approval: StoredApproval) -> None:
            if approval.id == approval_id:
                answered.set()

        self.resolved.append(listen)
        try:
            present = await self.find(approval_id)
            if present is not None and present.state is ApprovalState.PENDING:
                with anyio.move_on_after(seconds):
                    await answered.wait()
                present = await self.find(approval_id)
        finally:
            self.resolved.remove(listen)
        if present is None:
            raise ApprovalNotOpenError(approval_id, None)
        return present

    async def resolve(self, approval_id: str, verdict: Verdict, by: str) -> StoredApproval:
        """Notes the answer of a person, and wakes the call; returns the approval as it is now.

        Raises:
            ApprovalNotOpenError: it is not pending.
            NoPatternError: it can be allowed once only.
        """
        now = self.clock.now_ms()

        def write(unit: Unit) -> StoredApproval:
            stored = approvals.get(unit, approval_id)
            if stored is None or stored.state is not ApprovalState.PENDING:
                raise ApprovalNotOpenError(approval_id, stored.state if stored else None)
            if verdict is Verdict.ALWAYS and not stored.subject.patterns:
                raise NoPatternError(approval_id)
            if not approvals.resolve(unit, approval_id, verdict, by, now):
                raise ApprovalNotOpenError(approval_id, ApprovalState.EXPIRED)
            answered = approvals.get(unit, approval_id)
            return answered or stored

        answered = await self.store.write(write)
        self.reach("approval.resolved")
        self.tell(answered)
        return answered

    def approval_of(self, call: PendingCall, request: RunRequest) -> StoredApproval:
        """Returns a new pending approval of a call, without secrets in what a person reads."""
        assessment, key, now = call.assessment, call.caller.key, self.clock.now_ms()
        subject, redact = assessment.subject, self.redact
        arguments = msgspec.json.encode(call.arguments).decode()
        argv = subject.argv if subject else None
        view = ApprovalView(
            tool=call.tool,
            command=redact(subject.command if subject else f"{call.tool} {arguments}"),
            host=subject.host if subject else "gateway",
            cwd=subject.cwd if subject else "",
            agent=key.agent,
            session_key=str(key),
            rule=assessment.rule,
            reason=redact(assessment.reason),
            argv=tuple(map(redact, argv)) if argv is not None else None,
            env_keys=subject.env_keys if subject else (),
            patterns=assessment.patterns,
        )
        bare = replace(request, text="", images=(), inline=None, expected=None, opening=None)
        return StoredApproval(
            str(uuid.uuid4()),
            ApprovalState.PENDING,
            fingerprint(call),
            ApprovedCall(call, bare),
            view,
            now,
            now + EXPIRES_MS,
        )

    async def expire(self) -> None:
        """Ends the approvals that no person answered in time."""
        now = self.clock.now_ms()
        first = await self.store.read(approvals.next_expiry)
        if first is None or first > now:
            return  # mostly nothing is to be written

        def write(unit: Unit) -> list[StoredApproval]:
            ids = approvals.expire(unit, now)
            return [approval for each in ids if (approval := approvals.get(unit, each))]

        for expired in await self.store.write(write):
            self.tell(expired)

    def tell(self, approval: StoredApproval) -> None:
        """Notifies listeners and the call of an approval that is no longer pending."""
        waiter = self.waiting.get(approval.id)
        if waiter is not None:
            waiter.set()
        for listener in tuple(self.resolved):
            listener(approval)
        self.wake()

    def wake(self) -> None:
        """Lets the calls that no run waits for be looked at."""
        self.changed.set()

    async def interrupt(self) -> None:
        """Notes at a start that the outcomes of calls that had begun are unknown."""
        if not await self.store.read(approvals.any_begun):
            return  # an ordinary start writes nothing
        now = self.clock.now_ms()
        ids = await self.store.write(lambda unit: approvals.interrupt(unit, now))
        logger.warning("calls that had begun are not repeated; approvals: %s", ", ".join(ids))

    async def begin(self, approval_id: str) -> bool:
        """Notes that the allowed call begins; only the first caller gets True."""
        now = self.clock.now_ms()
        began = await self.store.write(lambda unit: approvals.begin(unit, approval_id, now))
        self.reach("approval.begun")
        return began

    async def withdraw(self, approval_id: str, by: str) -> None:
        """Denies an approval whose call has not begun."""
        now = self.clock.now_ms()

        def write(unit: Unit) -> StoredApproval | None:
            done = approvals.withdraw(unit, approval_id, by, now)
            return approvals.get(unit, approval_id) if done else None

        if (withdrawn := await self.store.write(write)) is not None:
            self.tell(withdrawn)


def chat_text(approval: StoredApproval) -> str:
    """Returns the request for a chat, with every hidden character of the command escaped.

    What the model chose is code in Markdown: elsewhere a link would show its label alone, and
    what it leads to may be part of the command.
    """
    view, short = approval.subject, approval.id[:8]
    where = f" on {view.host}" if view.host else ""
    folder = f" in {_code(view.cwd)}" if view.cwd else ""
    always = " | allow-always" if view.patterns else ""
    seconds = (approval.expires_at - approval.created_at) // 1000
    reason = f": {_code(view.reason)}" if view.reason else ""
    return (
        f"🔒 Approval required (id {short}, within {seconds} s)\n"
        f"{view.tool}{where}{folder}:\n```\n{_escaped(view.command)}\n```\n"
        f"Rule {view.rule}{reason}\n"
        f"Answer: /approve {short} allow-once{always} | deny"
    )


def _code(text: str) -> str:
    return f"`{_escaped(text)}`"


def _escaped(text: str) -> str:
    return escaped(text).replace("`", _BACKTICK)


def buttons(approval: StoredApproval) -> tuple[Button, ...]:
    """Returns the answers as buttons, for platforms that have them."""
    short = approval.id[:8]
    verdicts = {"Allow once": "allow-once", "Always allow": "allow-always", "Deny": "deny"}
    return tuple(
        Button(label, f"/approve {short} {verdict}")
        for label, verdict in verdicts.items()
        if verdict != "allow-always" or approval.subject.patterns
    )


def fingerprint(call: PendingCall) -> str:
    """Returns the digest of all that an approval is bound to; equal only for the same call."""
    subject = call.assessment.subject
    binding = subject.binding if subject else b""
    key = call.caller.key
    content = (call.tool, call.arguments, key.agent, str(key), call.caller.origin, binding)
    encoded = msgspec.json.encode(content, order="deterministic")
    return hashlib.sha256(encoded).hexdigest()
