"""Ends runs outside the lane of their session, whose transcript they leave alone.

Commands that must not wait for the run that is on, and messages that the queue drops or that were
taken back.
"""

import logging

from msgspec.structs import replace

from skerry.commands.table import Command, answer, tell_command
from skerry.lanes.active_runs import ActiveRun
from skerry.model.errors import StoreFailedError
from skerry.model.event import RunEnded, RunStarted, TextDelta
from skerry.model.run import RunFailure, RunResult, StopReason
from skerry.runtime.finalize import Block, Outgoing, add_to_outbox, end_notices, outgoing
from skerry.runtime.run_context import Runtime, command_call, persisted, run_context
from skerry.sessions.send_policy import sends_to
from skerry.store import Unit, runs

logger = logging.getLogger(__name__)


async def answer_apart(
    runtime: Runtime, active: ActiveRun, command: Command, arguments: str
) -> None:
    """Answers the command now; no more than the person reads it."""
    active.started_at = runtime.clock.now_ms()
    runtime.publish(active.event(RunStarted(active.started_at)))
    call = command_call(active, command, arguments)
    tell_command(runtime.hooks, call, active.session_id)
    text = await runtime.supervisor.call(lambda: answer(command, call), f"command /{command.name}")
    runtime.publish(active.event(TextDelta(text)))
    await _end(runtime, active, _result(runtime, active, StopReason.DONE, (text,)), notify=True)


async def drop(
    runtime: Runtime, active: ActiveRun, cap: int, *, notify: bool, patient: bool = False
) -> bool:
    """Ends a message that the queue had no room for; with `notify` the person is told.

    Returns false if that cannot be written now: then nobody was told. With `patient` it is tried
    until it can.
    """
    text = f"more than {cap} messages waited, and this one was dropped"
    told_once = " Until I am done, more may be dropped without a word." if notify else ""
    failure = RunFailure("queue.full", f"{text}; send it again.{told_once}", retryable=True)
    log = logger.warning if notify else logger.debug  # of a flood one line is enough
    log("run %s: %s", active.request.run_id, text)
    result = _result(runtime, active, StopReason.ERROR, (), failure)
    return await _end(runtime, active, result, notify=notify, patient=patient)


async def end_unsaid(runtime: Runtime, active: ActiveRun) -> None:
    """Ends a message that was taken back while it waited; no model reads it."""
    stopped = replace(
        _result(runtime, active, StopReason.ABORTED, ()), aborted_by=active.aborted_by
    )
    await _end(runtime, active, stopped, notify=True)


async def _end(
    runtime: Runtime, active: ActiveRun, result: RunResult, *, notify: bool, patient: bool = True
) -> bool:
    """Writes the end, and tells of it; if not `patient`, return false where the disk is full."""
    request = active.request
    policy = runtime.config().session.send_policy
    to = sends_to(policy, active.settings, request.key, request.reply_to) if notify else None
    context = run_context(request, active.session_id)
    going: Outgoing = []
    if to is not None:
        blocks = [*(Block(text) for text in result.payloads), *end_notices(result)]
        going = await outgoing(runtime.hooks, context, blocks, to, runtime.delivery.parts)

    def end(unit: Unit) -> None:
        add_to_outbox(unit, result, going)
        runs.finish(unit, result)

    try:
        if patient:
            await persisted(result.run_id, lambda: runtime.store.write(end))
        else:
            await runtime.store.write(end)
    except StoreFailedError:
        return False
    except Exception:
        # It stays open in the store, and the next start takes it up; nobody waits for that here.
        logger.exception("the end of run %s could not be stored", result.run_id)
    runtime.running.finish(active, result)
    runtime.publish(active.event(RunEnded(result)))
    if to is not None:
        runtime.delivery.wake(to)
    return True


def _result(
    runtime: Runtime,
    active: ActiveRun,
    reason: StopReason,
    payloads: tuple[str, ...],
    error: RunFailure | None = None,
) -> RunResult:
    request, now = active.request, runtime.clock.now_ms()
    ids = request.run_id, str(request.key), active.session_id
    return RunResult.without_model(ids, reason, (active.started_at or now, now), error, payloads)
