"""Ends runs outside the lane of their session, without an entry in the transcript.

These are commands that must not wait for the active run, messages that the queue drops, and
withdrawn messages.
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
    """Answers the command at once; neither the command nor the answer is stored."""
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
    """Ends a message for which the queue has no room; with `notify` the person gets a notice.

    Returns False if the end cannot be written now; then no notice is sent. With `patient` the write
    is repeated until it succeeds.
    """
    text = f"more than {cap} messages waited, and this one was dropped"
    warning = " Until I am done, more may be dropped without a word." if notify else ""
    failure = RunFailure("queue.full", f"{text}; send it again.{warning}", retryable=True)
    log = logger.warning if notify else logger.debug  # one line is enough for a flood
    log("run %s: %s", active.request.run_id, text)
    result = _result(runtime, active, StopReason.ERROR, (), failure)
    return await _end(runtime, active, result, notify=notify, patient=patient)


async def end_unsaid(runtime: Runtime, active: ActiveRun) -> None:
    """Ends a message that was withdrawn while it waited; no model gets it."""
    stopped = replace(
        _result(runtime, active, StopReason.ABORTED, ()), aborted_by=active.aborted_by
    )
    await _end(runtime, active, stopped, notify=True)


async def _end(
    runtime: Runtime, active: ActiveRun, result: RunResult, *, notify: bool, patient: bool = True
) -> bool:
    """Writes the end and publishes it; if not `patient`, returns False when the store fails."""
    request = active.request
    policy = runtime.config().session.send_policy
    to = sends_to(policy, active.settings, request.key, request.reply_to) if notify else None
    context = run_context(request, active.session_id)
    outgoing_blocks: Outgoing = []
    if to is not None:
        blocks = [*(Block(text) for text in result.payloads), *end_notices(result)]
        outgoing_blocks = await outgoing(runtime.hooks, context, blocks, to, runtime.delivery.parts)

    def end(unit: Unit) -> None:
        add_to_outbox(unit, result, outgoing_blocks)
        runs.finish(unit, result)

    try:
        if patient:
            await persisted(result.run_id, lambda: runtime.store.write(end))
        else:
            await runtime.store.write(end)
    except StoreFailedError:
        return False
    except Exception:
        # The run stays open in the store, and the next start resumes it.
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
