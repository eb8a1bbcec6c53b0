"""Waits for a person's answer about a tool call, inside the run that makes it.

The wait does not count towards the run's time limit and uses no lane slot. It ends at an answer, a
message that steers the run, an abort, or after half a minute.
"""

import logging
from typing import Any, Final

import anyio
import msgspec
from msgspec import Struct

from skerry.lanes.active_runs import ActiveRun
from skerry.model.approval import ApprovalState
from skerry.model.errors import StateError
from skerry.model.tool import ToolResult
from skerry.ports.approval import Approval, PendingCall
from skerry.runtime.approvals import ABORTED, MAX_PENDING, ApprovalDesk
from skerry.runtime.run_context import persisted
from skerry.store import Unit, approvals
from skerry.store.approvals import StoredApproval

logger = logging.getLogger(__name__)

WAIT_SECONDS: Final = 30.0
"""Seconds that a call waits inside its run."""
MAX_BYTES: Final = 262_144
"""Limit on the arguments of a call to be approved, in bytes of JSON."""


class RunApprovals(Struct, frozen=True):
    """Approvals of the calls of one run. Implements `ports.approval.Approvals`."""

    desk: ApprovalDesk
    active: ActiveRun

    async def ask(self, call: PendingCall) -> Approval | ToolResult:
        """Returns the approval, or the result for the model if the call may not run now."""
        desk, active = self.desk, self.active
        if len(msgspec.json.encode(call.arguments)) > MAX_BYTES:
            text = f"Tool {call.tool} was denied by the rule approval-size: the arguments are"
            return ToolResult(f"{text} longer than {MAX_BYTES} bytes", is_error=True)
        nudge = active.nudge = anyio.Event()
        approval = desk.approval_of(call, active.request)
        try:
            stored = await self._opened(approval)
            if stored is None:
                text = f"Tool {call.tool} was denied by the rule approval-flood: {MAX_PENDING}"
                return ToolResult(f"{text} approvals are pending already", is_error=True)
            desk.waiting[stored.id] = nudge
            desk.reach("approval.asked")
            stored = await self._wait(stored, nudge)
        finally:
            active.nudge = None
            for key in [key for key, waiter in desk.waiting.items() if waiter is nudge]:
                del desk.waiting[key]
        if stored.state is ApprovalState.ALLOWED:
            return Approval(stored.id, call)
        return self._result(stored)

    async def begin(self, approval: Approval) -> bool:
        """Records that the call begins; returns False if it has begun already."""
        return await self.desk.begin(approval.id)

    async def refuse(self, approval: Approval, reason: str) -> None:
        """Records that the approved call never begins."""
        await self.desk.withdraw(approval.id, reason)

    async def ended(self, approval: Approval, result: ToolResult) -> None:
        """Records the outcome; retries if the store fails, because the call has had its effect."""
        desk = self.desk
        desk.reach("approval.ran")
        now, outcome = desk.clock.now_ms(), storable_outcome(result)

        async def write() -> None:
            await desk.store.write(lambda unit: approvals.end(unit, approval.id, outcome, now))

        await persisted(self.active.request.run_id, write)
        desk.reach("approval.ended")

    async def _opened(self, approval: StoredApproval) -> StoredApproval | None:
        """Returns the open approval of an equal call, else a new one; None at the limit."""
        desk, now = self.desk, approval.created_at
        run_id = self.active.request.run_id
        call_id = approval.stored.call.call_id if approval.stored else ""

        def write(unit: Unit) -> tuple[StoredApproval | None, bool]:
            same = approvals.open_call(unit, approval.fingerprint, now)
            if same is not None and approvals.attach_run(unit, same.id, run_id, call_id, now):
                return same, False
            if approvals.count_pending(unit) >= MAX_PENDING:
                return None, False
            approvals.add(unit, approval, run_id, call_id)
            desk.ask_chat(unit, approval)
            return approval, True

        stored, new = await desk.store.write(write)
        if stored is not None and new:
            desk.ask_people(stored)
        return stored

    async def _wait(self, stored: StoredApproval, nudge: anyio.Event) -> StoredApproval:
        """Waits for the answer; returns the approval, detached from the run if still pending."""
        desk, active = self.desk, self.active
        if stored.state is not ApprovalState.PENDING:
            return stored
        try:
            with active.untimed():
                async with desk.outside(str(active.request.key)):
                    # An answer may have been given since the row was read.
                    present = await desk.store.read(lambda r: approvals.get(r, stored.id))
                    waits = present is not None and present.state is ApprovalState.PENDING
                    if waits and not active.is_steered():
                        with anyio.move_on_after(WAIT_SECONDS):
                            await nudge.wait()
        except anyio.get_cancelled_exc_class():
            if active.aborted_by is not None:
                with anyio.CancelScope(shield=True):
                    await self._give_up(stored.id)
            raise
        return await self._detach(stored)

    async def _give_up(self, approval_id: str) -> None:
        try:
            await self.desk.withdraw(approval_id, ABORTED)
        except StateError:
            logger.exception("approval %s of an aborted run could not be withdrawn", approval_id)

    async def _detach(self, stored: StoredApproval) -> StoredApproval:
        desk, now = self.desk, self.desk.clock.now_ms()

        def write(unit: Unit) -> StoredApproval:
            present = approvals.get(unit, stored.id) or stored
            if present.state is ApprovalState.PENDING:
                approvals.detach_run(unit, stored.id, now)
            return present

        present = await desk.store.write(write)
        desk.reach("approval.left")
        return present

    def _result(self, stored: StoredApproval) -> ToolResult:
        tool, rule = stored.subject.tool, stored.subject.rule
        match stored.state:
            case ApprovalState.PENDING:
                return pending_result(stored, reached=self.desk.reaches_somebody(stored))
            case ApprovalState.DENIED:
                reason = f"{stored.resolved_by or 'a person'} denied it"
            case ApprovalState.EXPIRED:
                reason = "no person answered in time"
            case state:
                reason = f"the approval is {state}; do not repeat the call"
        text = f"Tool {tool} was denied by the rule {rule}: {reason}"
        return ToolResult(text, is_error=True, details=details(stored, str(stored.state)))


def pending_result(stored: StoredApproval, *, reached: bool) -> ToolResult:
    """Returns the result, for the model, of a call whose approval is still pending."""
    text = (
        f"approval-pending: Approval required (id {stored.id[:8]}). Approve to run; the outcome"
        " will arrive as a message. Do not repeat the call meanwhile."
    )
    if not reached:
        text += (
            " The request reached nobody: no client with the approvals scope is connected, and"
            " there is no chat to ask. Tell the person: `skerry approvals list` shows it."
        )
    return ToolResult(text, details=details(stored, "approval-pending"))


def details(stored: StoredApproval, status: str) -> dict[str, Any]:
    """Returns the details of an approval for clients."""
    view = stored.subject
    return {
        "status": status,
        "approvalId": stored.id,
        "approvalSlug": stored.id[:8],
        "expiresAtMs": stored.expires_at,
        "host": view.host,
        "command": view.command,
        "cwd": view.cwd,
    }


def storable_outcome(result: ToolResult) -> ToolResult:
    """Returns the outcome for the row of the approval: its text, cut, without blocks."""
    return ToolResult(result.text[:MAX_BYTES], result.is_error, result.origin)
