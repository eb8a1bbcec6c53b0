"""Makes the calls that were approved after their runs had gone on, and tells every late outcome.

An outcome is a message that starts a turn, accepted in the unit that notes the end of the call. The
calls of an earlier process are taken up: an allowed one begins, one that had begun is unknown.
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
from skerry.runtime.call_approvals import kept
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
"""Seconds between two tries of a store that fails."""


class LateCalls(Struct):
    """Works off the approvals that no run waits for, until `run` is cancelled."""

    dispatch: Dispatch
    desk: ApprovalDesk
    _busy: set[str] = field(default_factory=set)
    """Approvals that are worked on."""
    _watched: set[str] = field(default_factory=set)
    """Runs whose end is waited for."""
    _pruned: int = 0
    """Time of the last look for old approvals, in milliseconds since 1970."""

    async def run(self) -> None:
        """Takes up what an earlier process left, then follows every answer and every expiry."""
        await self._patiently(self._take_up)
        async with anyio.create_task_group() as tasks:
            while True:
                self.desk.changed = anyio.Event()
                await self._patiently(lambda: self._look(tasks))
                await self._next()

    async def _patiently(self, step: Callable[[], object]) -> None:
        """Does a step again until the store accepts it."""
        while True:
            try:
                await step()  # type: ignore[misc]  # each is a coroutine function
            except StateError as error:
                logger.warning("approvals wait for the store: %s", error)
                await anyio.sleep(RETRY_SECONDS)
            else:
                return

    async def _take_up(self) -> None:
        """Lets go of the calls whose runs did not survive the last process."""
        store, running = self.desk.store, self.dispatch.runtime.running
        left = await store.read(approvals.attached)
        orphans = [approval for approval, run_id in left if running.get(RunId(run_id)) is None]
        if not orphans:
            return
        now = self.desk.clock.now_ms()

        def write(unit: Unit) -> None:
            for approval_id in orphans:
                approvals.let_go(unit, approval_id, now)

        await store.write(write)

    async def _prune(self) -> None:
        """Deletes approvals that ended long ago, once a day; the audit log keeps the decisions."""
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
            else:  # its run has ended without making the call: it was aborted
                await self.desk.withdraw(stored.id, ABORTED)

    def _watch(self, tasks: TaskGroup, active: ActiveRun) -> None:
        """Looks again when the run has ended, which makes the call itself."""
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
        """Waits until something changed, or the next approval expires."""
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

    async def _work(self, stored: StoredApproval, made: ApprovedCall) -> None:
        """Makes an allowed call; tells how the call ended."""
        try:
            result = None
            if stored.state is ApprovalState.ALLOWED:
                result = await self._make(stored, made)
                if result is None:
                    return  # a run that makes the same call has begun it
            await self._patiently(lambda: self._tell(stored, made, result))
        except Exception:
            # One approval must not end the others; its row is as it was for the next start.
            logger.exception("the outcome of the approval %s was not told", stored.id)
            return
        self._busy.discard(stored.id)

    async def _make(self, stored: StoredApproval, made: ApprovedCall) -> ToolResult | None:
        """Returns the result of the call; None if something else has begun it."""
        runtime, call = self.dispatch.runtime, made.call
        tool = runtime.tools.get(call.tool)
        if tool is None:
            await self.desk.withdraw(stored.id, "no such tool")
            return ToolResult(f"Tool {call.tool} not found", is_error=True)
        layers = runtime.tools.layers(call.caller, runtime.config(), call.model)
        call_gate = CallGate(call.run_id, call.session_id, layers)
        late, began = _LateApproval(self.desk), runtime.clock.now_ms()
        result = await runtime.supervisor.call(
            lambda: run_approved(
                tool, self._context(made), call_gate, late, Approval(stored.id, call)
            ),
            f"tool {call.tool}",
        )
        return None if late.lost else await self._hooked(made, result, began)

    async def _hooked(self, made: ApprovedCall, result: ToolResult, began: int) -> ToolResult:
        """Returns the result as the hooks of a tool's result leave it."""
        runtime, made_call, request = self.dispatch.runtime, made.call, made.request
        workspace = runtime.config().workspace(request.key.agent)
        context = run_context(request, made_call.session_id, workspace, made_call.caller)
        hooks = RunHooks(runtime.hooks, context, TranscriptHooks(runtime.hooks), runtime.clock)
        call = ToolCall(made_call.call_id, made_call.tool, made_call.arguments)
        at = runtime.clock.now_ms()
        final = await hooks.late(call, result_message(call, result, at), at - began)
        return ToolResult(final.text, final.is_error, final.origin)

    def _context(self, made: ApprovedCall) -> ToolContext:
        """Returns the context of a call whose run is over, with the rights that the run had."""
        runtime, call, request = self.dispatch.runtime, made.call, made.request
        config = runtime.config()
        caller = call.caller
        actor = Actor.of(caller, call.taint)
        rules = gate(config, actor, runtime.records, str(caller.key))
        recall = SessionRecall(runtime.store, ActiveRun(request, call.session_id))
        workspace = RootedFolder(config.workspace(caller.key.agent), rules)
        return ToolContext(workspace, recall, caller, call.taint, request=request)

    async def _tell(
        self, stored: StoredApproval, made: ApprovedCall, result: ToolResult | None
    ) -> None:
        """Writes the end of the call and the message about it in one unit."""
        desk, now = self.desk, self.desk.clock.now_ms()

        def end(unit: Unit) -> None:
            if result is not None:
                approvals.end(unit, stored.id, kept(result), now)

        def beside(unit: Unit) -> None:
            end(unit)
            approvals.settled(unit, stored.id, now)

        outcome = result or stored.outcome
        text = outcome.text if outcome else ""
        scanned = await anyio.to_thread.run_sync(scan, text) if text else None
        try:
            await self.dispatch.submit(message(stored, made, outcome, scanned), beside)
        except BusyError:  # the gateway stops: the next start tells it
            await desk.store.write(end)
        except StateError:
            raise
        except SkerryError:
            logger.exception("nobody can be told of the approval %s", stored.id)
            await desk.store.write(beside)
        desk.reach("approval.told")


class _LateApproval(Struct):
    """Approval of a call whose run is over. Implements `ports.approval.Approvals`."""

    desk: ApprovalDesk
    lost: bool = False
    """True when a run that makes the same call began it first."""

    async def ask(self, call: PendingCall) -> Approval | ToolResult:
        """Returns a refusal: the call was answered already."""
        return ToolResult(f"Tool {call.tool} was not run.", is_error=True)

    async def begin(self, approval: Approval) -> bool:
        """Notes that the call begins."""
        began = await self.desk.begin(approval.id)
        self.lost = not began
        return began

    async def refuse(self, approval: Approval, why: str) -> None:
        """Notes that the call never begins."""
        await self.desk.withdraw(approval.id, why)

    async def ended(self, approval: Approval, result: ToolResult) -> None:  # noqa: ARG002 - the port's
        """Leaves the outcome to the unit of the message about it."""
        self.desk.reach("approval.ran")


def message(
    stored: StoredApproval,
    made: ApprovedCall,
    outcome: ToolResult | None,
    scanned: Scan | None = None,
) -> RunRequest:
    """Returns the message about the end of a call, with the rights of the run that made it.

    Its id is the approval's, so that it is accepted once.
    """
    request = made.request
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
            how = "failed" if outcome and outcome.is_error else "ended"
            text = outcome.text if outcome else ""
            result = fences.fence(text, "result", about=fences.about(scanned))
            return f"{begin} was approved and has {how}. Its result:\n{result}"
