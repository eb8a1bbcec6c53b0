"""Makes calls that were approved after their runs had continued, and reports their outcomes.

An outcome is a message that starts a turn; it is accepted in the unit that records the end of the
call. Calls of an earlier process are handled too: an allowed call begins; the outcome of a call
that had begun is unknown.
"""

import logging
from collections.abc import Callable
from typing import Final

import anyio
import anyio.to_thread
from anyio.abc import TaskGroup
from msgspec import Struct, field

from skerry.config.protected import gate
from skerry.infra.rooted_fs import RootedFolder
from skerry.lanes.active_runs import ActiveRun
from skerry.model.approval import ApprovalState
from skerry.model.errors import BusyError, SkerryError, StateError
from skerry.model.ids import RunId
from skerry.model.message import ToolCall
from skerry.model.run import Purpose, RunRequest
from skerry.model.tool import ToolResult
from skerry.policy import fences
from skerry.policy.decide import Actor
from skerry.policy.injection import Scan, scan
from skerry.ports.approval import Approval, PendingCall
from skerry.ports.tool import ToolContext
from skerry.runtime.approvals import ABORTED, ApprovalDesk
from skerry.runtime.call_approvals import storable_outcome
from skerry.runtime.dispatcher import Dispatch
from skerry.runtime.run_context import run_context
from skerry.runtime.run_hooks import RunHooks, TranscriptHooks
from skerry.runtime.tool_calls import CallGate, SessionRecall, run_approved
from skerry.runtime.tool_results import result_message
from skerry.store import Unit, approvals
from skerry.store.approvals import ApprovedCall, StoredApproval

logger = logging.getLogger(__name__)

KEPT_DAYS: Final = 7
"""Days for which an approval is kept after its end."""
_DAY_MS: Final = 86_400_000
RETRY_SECONDS: Final = 1.0
"""Seconds between two attempts when the store fails."""


class LateCalls(Struct):
    """Handles the approvals that no run waits for, until `run` is cancelled."""

    dispatch: Dispatch
    desk: ApprovalDesk
    _busy: set[str] = field(default_factory=set)
    """Ids of the approvals in progress."""
    _watched: set[str] = field(default_factory=set)
    """Ids of the runs whose end a task waits for."""
    _pruned: int = 0
    """Time of the last pruning, in milliseconds since 1970."""

    async def run(self) -> None:
        """Detaches the calls of an earlier process, then handles every answer and every expiry."""
        await self._retried(self._take_up)
        async with anyio.create_task_group() as tasks:
            while True:
                self.desk.changed = anyio.Event()
                await self._retried(lambda: self._look(tasks))
                await self._next()

    async def _retried(self, step: Callable[[], object]) -> None:
        """Repeats a step until the store accepts it."""
        while True:
            try:
                await step()  # type: ignore[misc]  # each is a coroutine function
            except StateError as error:
                logger.warning("approvals: retrying after a store error: %s", error)
                await anyio.sleep(RETRY_SECONDS)
            else:
                return

    async def _take_up(self) -> None:
        """Detaches the calls whose runs ended with the last process."""
        store, running = self.desk.store, self.dispatch.runtime.running
        attached = await store.read(approvals.attached)
        orphans = [approval for approval, run_id in attached if running.get(RunId(run_id)) is None]
        if not orphans:
            return
        now = self.desk.clock.now_ms()

        def write(unit: Unit) -> None:
            for approval_id in orphans:
                approvals.detach_run(unit, approval_id, now)

        await store.write(write)

    async def _prune(self) -> None:
        """Deletes old approvals, once a day; the audit log keeps the decisions."""
        now, store = self.desk.clock.now_ms(), self.desk.store
        if now - self._pruned < _DAY_MS:
            return
        self._pruned, before = now, now - KEPT_DAYS * _DAY_MS
        if await store.read(lambda reader: approvals.any_old(reader, before)):
            await store.write(lambda unit: approvals.prune(unit, before))

    async def _look(self, tasks: TaskGroup) -> None:
        await self.desk.expire()
        await self._prune()
        for stored, run_id in await self.desk.store.read(approvals.due):
            if stored.stored is None or stored.id in self._busy:
                continue
            active = self.dispatch.runtime.running.get(RunId(run_id))
            if stored.owed:
                self._busy.add(stored.id)
                tasks.start_soon(self._work, stored, stored.stored)
            elif active is not None:
                self._watch(tasks, active)
            else:  # its run was aborted before it made the call
                await self.desk.withdraw(stored.id, ABORTED)

    def _watch(self, tasks: TaskGroup, active: ActiveRun) -> None:
        """Wakes `run` when the active run, which makes the call, has ended."""
        run_id = active.request.run_id
        if run_id in self._watched:
            return
        self._watched.add(run_id)

        async def watch() -> None:
            await active.ended.wait()
            self._watched.discard(run_id)
            self.desk.wake()

        tasks.start_soon(watch)

    async def _next(self) -> None:
        """Waits for a change or for the next expiry."""
        expiry: int | None = None
        try:
            expiry = await self.desk.store.read(approvals.next_expiry)
        except StateError:
            expiry = self.desk.clock.now_ms() + int(RETRY_SECONDS * 1000)
        seconds = None
        if expiry is not None:
            seconds = max(0.0, (expiry - self.desk.clock.now_ms()) / 1000) + 0.001
        with anyio.move_on_after(seconds):
            await self.desk.changed.wait()

    async def _work(self, stored: StoredApproval, approved: ApprovedCall) -> None:
        """Makes the call if it was allowed; reports the outcome."""
        try:
            result = None
            if stored.state is ApprovalState.ALLOWED:
                result = await self._execute(stored, approved)
                if result is None:
                    return  # a run that makes the same call has begun it
            await self._retried(lambda: self._report(stored, approved, result))
        except StateError as error:
            # The call has not begun, or its row says so and it is not due again.
            logger.warning("approval %s: retrying after a store error: %s", stored.id, error)
            await anyio.sleep(RETRY_SECONDS)
            self.desk.wake()
        except Exception:
            # One approval must not stop the others; its row is unchanged for the next start.
            logger.exception("the outcome of approval %s could not be reported", stored.id)
            return
        self._busy.discard(stored.id)

    async def _execute(self, stored: StoredApproval, approved: ApprovedCall) -> ToolResult | None:
        """Returns the result of the call; None if a run has begun it."""
        runtime, call = self.dispatch.runtime, approved.call
        await runtime.tools.prepare(call.caller)
        tool = runtime.tools.get(call.tool)
        if tool is None:
            await self.desk.withdraw(stored.id, "no such tool")
            return ToolResult(f"Tool {call.tool} not found", is_error=True)
        layers = runtime.tools.layers(call.caller, runtime.config(), call.model)
        call_gate = CallGate(call.run_id, call.session_id, layers)
        late, began = _LateApproval(self.desk), runtime.clock.now_ms()
        result = await runtime.supervisor.call(
            lambda: run_approved(
                tool, self._context(approved), call_gate, late, Approval(stored.id, call)
            ),
            f"tool {call.tool}",
        )
        return None if late.already_begun else await self._hooked(approved, result, began)

    async def _hooked(self, approved: ApprovedCall, result: ToolResult, began: int) -> ToolResult:
        """Returns the result after the hooks for tool results."""
        runtime, pending, request = self.dispatch.runtime, approved.call, approved.request
        workspace = runtime.config().workspace(request.key.agent)
        context = run_context(request, pending.session_id, workspace, pending.caller)
        hooks = RunHooks(runtime.hooks, context, TranscriptHooks(runtime.hooks), runtime.clock)
        call = ToolCall(pending.call_id, pending.tool, pending.arguments)
        at = runtime.clock.now_ms()
        final = await hooks.late(call, result_message(call, result, at), at - began)
        return ToolResult(final.text, final.is_error, final.origin)

    def _context(self, approved: ApprovedCall) -> ToolContext:
        """Returns the context of a call after its run, with the rights of that run."""
        runtime, call, request = self.dispatch.runtime, approved.call, approved.request
        config = runtime.config()
        caller = call.caller
        actor = Actor.of(caller, call.taint)
        rules = gate(config, actor, runtime.records, str(caller.key))
        recall = SessionRecall(runtime.store, ActiveRun(request, call.session_id))
        workspace = RootedFolder(config.workspace(caller.key.agent), rules)
        return ToolContext(workspace, recall, caller, call.taint, request=request)

    async def _report(
        self, stored: StoredApproval, approved: ApprovedCall, result: ToolResult | None
    ) -> None:
        """Writes the end of the call and the message about it in one unit."""
        desk, now = self.desk, self.desk.clock.now_ms()

        def end(unit: Unit) -> None:
            if result is not None:
                approvals.end(unit, stored.id, storable_outcome(result), now)

        def settle(unit: Unit) -> None:
            end(unit)
            approvals.mark_reported(unit, stored.id, now)

        outcome = result or stored.outcome
        text = outcome.text if outcome else ""
        scanned = await anyio.to_thread.run_sync(scan, text) if text else None
        try:
            await self.dispatch.submit(message(stored, approved, outcome, scanned), settle)
        except BusyError:  # the gateway stops: the next start reports the outcome
            await desk.store.write(end)
        except StateError:
            raise
        except SkerryError:
            logger.exception("the message about approval %s was refused", stored.id)
            await desk.store.write(settle)
        desk.reach("approval.told")


class _LateApproval(Struct):
    """Approval of a call after its run. Implements `ports.approval.Approvals`."""

    desk: ApprovalDesk
    already_begun: bool = False
    """True if a run that makes the same call began it first."""

    async def ask(self, call: PendingCall) -> Approval | ToolResult:
        """Returns a refusal: the approval was answered already."""
        return ToolResult(f"Tool {call.tool} was not run.", is_error=True)

    async def begin(self, approval: Approval) -> bool:
        """Records that the call begins; returns False if it has begun already."""
        began = await self.desk.begin(approval.id)
        self.already_begun = not began
        return began

    async def refuse(self, approval: Approval, reason: str) -> None:
        """Records that the call never begins."""
        await self.desk.withdraw(approval.id, reason)

    async def ended(self, approval: Approval, result: ToolResult) -> None:  # noqa: ARG002 - the port's
        """Does nothing: the outcome is written in the unit that accepts the message about it."""
        self.desk.reach("approval.ran")


def message(
    stored: StoredApproval,
    approved: ApprovedCall,
    outcome: ToolResult | None,
    scanned: Scan | None = None,
) -> RunRequest:
    """Returns the message about the end of a call, with the rights of the call's run.

    Its run id is derived from the approval, so that it is accepted once.
    """
    request = approved.request
    return RunRequest(
        RunId(f"approval-{stored.id}"),
        request.key,
        _text(stored, outcome, scanned),
        reply_to=request.reply_to,
        origin=request.origin,
        purpose=Purpose.APPROVAL,
        rights=request.rights,
        scopes=request.scopes,
        sender=request.sender,
        behalf=request.behalf,
        text_origin=(outcome or ToolResult("")).origin,
    )


def _text(stored: StoredApproval, outcome: ToolResult | None, scanned: Scan | None) -> str:
    tool = stored.subject.tool
    begin = f"The call of the tool {tool} that waited for approval (id {stored.id[:8]})"
    match stored.state:
        case ApprovalState.DENIED:
            by = stored.resolved_by or "a person"
            return f"{begin} was denied by {by}. It did not run; do not repeat it."
        case ApprovalState.EXPIRED:
            return f"{begin} was not approved in time. It did not run."
        case ApprovalState.UNKNOWN:
            return (
                f"{begin} was approved and had begun when the gateway stopped. Its outcome is"
                " unknown; it is not repeated. Look at what it has done before anything else."
            )
        case _:
            end = "failed" if outcome and outcome.is_error else "ended"
            text = outcome.text if outcome else ""
            result = fences.fence(text, "result", about=fences.about(scanned))
            return f"{begin} was approved and has {end}. Its result:\n{result}"
