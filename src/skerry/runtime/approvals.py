"""Approvals of tool calls: asks people, records their answers, and wakes the calls.

Each step is committed before it has an effect; of two answers the first counts.
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
"""Limit on pending approvals; a further call is denied."""
_BACKTICK: Final = "\\u{60}"
"""Escape of a backtick, which would end the code span of a command; some platforms show another
character instead."""
ABORTED: Final = "abort"
"""Recorded as the person who denied the calls of an aborted run."""


class ApprovalDesk(Struct):
    """Approvals of all runs. Each change of an approval is a unit of the store."""

    store: Store
    clock: Clock
    outside: Callable[[str], AbstractAsyncContextManager[None]] = lambda _: nullcontext()
    """Context manager that releases the lane slot of a session's job during a block."""
    reach: Callable[[str], None] = no_fault
    """Called at each named fault point."""
    redact: Callable[[str], str] = str
    """Removes secrets from the text shown to a person."""
    delivery: Senders | None = None
    """Senders of the platforms, for requests to the chats of the runs."""
    reaches: list[Callable[[StoredApproval], bool]] = field(default_factory=list)
    """Each returns whether a person with the right to answer is connected; before `requested`."""
    requested: list[Callable[[StoredApproval], None]] = field(default_factory=list)
    """Called with each new approval."""
    resolved: list[Callable[[StoredApproval], None]] = field(default_factory=list)
    """Called with each approval that was answered or has expired."""
    changed: anyio.Event = field(default_factory=anyio.Event)
    """Set when a call that no run waits for needs a step."""
    waiting: dict[str, anyio.Event] = field(default_factory=dict)
    """Events that wake the calls that wait inside their runs, by approval."""

    async def pending(self) -> list[StoredApproval]:
        """Returns the approvals that a person can answer, oldest first."""
        now = self.clock.now_ms()
        return await self.store.read(lambda reader: approvals.pending(reader, now))

    def reaches_somebody(self, approval: StoredApproval) -> bool:
        """Returns whether a person can be asked: by a connected client or in a chat."""
        return self.chat(approval) is not None or any(reaches(approval) for reaches in self.reaches)

    def chat(self, approval: StoredApproval) -> ReplyTo | None:
        """Returns the chat to ask: the chat of the run, if the owner started the run."""
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
        """Registers the listeners during the block."""
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
        """Returns the approval in any state; None if the id is unknown."""
        return await self.store.read(lambda reader: approvals.get(reader, approval_id))

    async def request(self, approval: StoredApproval) -> None:
        """Adds an approval for a call that a client will make.

        Raises:
            ApprovalNotOpenError: the id is in use, or too many approvals are pending.
        """

        def write(unit: Unit) -> None:
            if (same := approvals.get(unit, approval.id)) is not None:
                raise ApprovalNotOpenError(approval.id, same.state)
            if approvals.count_pending(unit) >= MAX_PENDING:
                raise ApprovalNotOpenError(approval.id, None)
            approvals.add(unit, approval, "", "")

        await self.store.write(write)
        self.ask_people(approval)

    def ask_people(self, approval: StoredApproval) -> None:
        """Notifies the listeners and the chat of a new approval."""
        to = self.chat(approval)
        if to is not None and self.delivery is not None:
            self.delivery.wake(to)
        for listener in self.requested:
            listener(approval)
        self.wake()

    async def decided(self, approval_id: str, seconds: float) -> StoredApproval:
        """Waits until the approval is no longer pending, at most `seconds`; returns it.

        Raises:
            ApprovalNotOpenError: the id is unknown.
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
        """Records the answer of a person and wakes the call; returns the approval after it.

        Raises:
            ApprovalNotOpenError: the approval is not pending.
            NoPatternError: the call can be allowed only once.
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
        self.notify_resolved(answered)
        return answered

    def approval_of(self, call: PendingCall, request: RunRequest) -> StoredApproval:
        """Returns a new pending approval of a call, without secrets in the shown text."""
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
        """Expires the approvals that were not answered in time."""
        now = self.clock.now_ms()
        first = await self.store.read(approvals.next_expiry)
        if first is None or first > now:
            return  # usually none has expired, so nothing is written

        def write(unit: Unit) -> list[StoredApproval]:
            ids = approvals.expire(unit, now)
            return [approval for each in ids if (approval := approvals.get(unit, each))]

        for expired in await self.store.write(write):
            self.notify_resolved(expired)

    def notify_resolved(self, approval: StoredApproval) -> None:
        """Notifies the listeners, and the call, of an approval that is no longer pending."""
        waiter = self.waiting.get(approval.id)
        if waiter is not None:
            waiter.set()
        for listener in tuple(self.resolved):
            listener(approval)
        self.wake()

    def wake(self) -> None:
        """Wakes the task that handles the calls that no run waits for."""
        self.changed.set()

    async def interrupt(self) -> None:
        """Marks, at a start, the outcomes of the calls that had begun as unknown."""
        if not await self.store.read(approvals.any_begun):
            return  # an ordinary start writes nothing
        now = self.clock.now_ms()
        ids = await self.store.write(lambda unit: approvals.interrupt(unit, now))
        logger.warning(
            "approved calls interrupted by the last stop are not repeated: %s", ", ".join(ids)
        )

    async def begin(self, approval_id: str) -> bool:
        """Records that the allowed call begins; returns True only to the first caller."""
        now = self.clock.now_ms()
        began = await self.store.write(lambda unit: approvals.begin(unit, approval_id, now))
        self.reach("approval.begun")
        return began

    async def withdraw(self, approval_id: str, by: str) -> None:
        """Denies an approval whose call has not begun."""
        now = self.clock.now_ms()

        def write(unit: Unit) -> StoredApproval | None:
            is_withdrawn = approvals.withdraw(unit, approval_id, by, now)
            return approvals.get(unit, approval_id) if is_withdrawn else None

        if (withdrawn := await self.store.write(write)) is not None:
            self.notify_resolved(withdrawn)


def chat_text(approval: StoredApproval) -> str:
    """Returns the request for a chat, with every hidden character of the command escaped.

    Text from the model is Markdown code: otherwise a link would show only its label, and hide an
    address that may be part of the command.
    """
    view, short = approval.subject, approval.id[:8]
    host = f" on {view.host}" if view.host else ""
    folder = f" in {_code(view.cwd)}" if view.cwd else ""
    always = " | allow-always" if view.patterns else ""
    seconds = (approval.expires_at - approval.created_at) // 1000
    reason = f": {_code(view.reason)}" if view.reason else ""
    return (
        f"🔒 Approval required (id {short}, within {seconds} s)\n"
        f"{view.tool}{host}{folder}:\n```\n{_escaped(view.command)}\n```\n"
        f"Rule {view.rule}{reason}\n"
        f"Answer: /approve {short} allow-once{always} | deny"
    )


def _code(text: str) -> str:
    return f"`{_escaped(text)}`"


def _escaped(text: str) -> str:
    return escaped(text).replace("`", _BACKTICK)


def buttons(approval: StoredApproval) -> tuple[Button, ...]:
    """Returns the possible answers as buttons, for platforms with buttons."""
    short = approval.id[:8]
    verdicts = {"Allow once": "allow-once", "Always allow": "allow-always", "Deny": "deny"}
    return tuple(
        Button(label, f"/approve {short} {verdict}")
        for label, verdict in verdicts.items()
        if verdict != "allow-always" or approval.subject.patterns
    )


def fingerprint(call: PendingCall) -> str:
    """Returns the digest of the values that an approval is bound to; equal only for equal calls."""
    subject = call.assessment.subject
    binding = subject.binding if subject else b""
    key = call.caller.key
    content = (call.tool, call.arguments, key.agent, str(key), call.caller.origin, binding)
    encoded = msgspec.json.encode(content, order="deterministic")
    return hashlib.sha256(encoded).hexdigest()
