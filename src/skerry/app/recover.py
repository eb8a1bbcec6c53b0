"""What a start does with the runs that the last process left open (decisions 3).

A run that had left no trace runs again under its id, if its message is the last of its session and
few starts have tried. Any other is closed: its open tool calls get aborted results, its partial
text is kept, and the person is told, with a way to retry. Messages that had entered it end with it,
as they would have without the crash: who wrote them is told once.
"""

import logging
from collections import defaultdict
from collections.abc import Callable, Sequence
from functools import partial
from typing import Final

from skerry.agent.ending import INTERRUPTED, announce, settle
from skerry.infra.clock import Clock
from skerry.model.ids import RunId
from skerry.model.inbound import ReplyTo
from skerry.model.message import AssistantMessage, Message, TextBlock, Usage
from skerry.model.run import RunFailure, RunResult, StopReason
from skerry.sessions.history import aborted_result, open_calls
from skerry.store import Store, Unit, runs, sessions

logger = logging.getLogger(__name__)

MAX_RESTARTS: Final = 5
"""A run that was running at this many ends of the process may be what ends it."""

Parts = Callable[[ReplyTo, str], list[str]]


async def recover(store: Store, clock: Clock, parts: Parts) -> list[runs.OpenRun]:
    """Close what cannot run again; return what is to run, in the order of acceptance."""
    if not await store.read(runs.unfinished):
        return []  # an ordinary start writes nothing
    return await store.write(partial(_recover, now=clock.now_ms(), parts=parts))


def _recover(unit: Unit, now: int, parts: Parts) -> list[runs.OpenRun]:
    guests: dict[RunId, list[RunId]] = defaultdict(list)
    again: list[runs.OpenRun] = []
    found = runs.unfinished(unit)
    for run in found:
        if run.host is not None:
            guests[run.host].append(run.request.run_id)
    for run in found:
        run_id = run.request.run_id
        if run.host is not None:
            continue  # it ends with its host
        overtaken = run.entry and run.entry != sessions.tail(unit, run.session_id)
        if run.left_trace or overtaken or run.restarts >= MAX_RESTARTS:
            logger.warning("run %s was interrupted; it is closed", run_id)
            _close(unit, run, guests[run_id], now, parts)
        else:
            if run.entry:
                runs.restart(unit, run_id)
            again.append(run)
    return again


def _close(unit: Unit, run: runs.OpenRun, guests: Sequence[RunId], now: int, parts: Parts) -> None:
    entries = sessions.entries(unit, run.session_id, limit=-1, after=run.entry)
    messages = [one.message for one in entries if one.run_id == run.request.run_id]
    tail = sessions.tail(unit, run.session_id)
    ending: list[Message] = [aborted_result(call, now) for call in open_calls(messages)]
    text = (TextBlock(run.partial),) if run.partial else ()
    ending.append(AssistantMessage(text, "", "", "", Usage(), "aborted", now, INTERRUPTED))
    said = [one.text for one in (*messages, *ending) if isinstance(one, AssistantMessage)]
    result = RunResult(
        run_id=run.request.run_id,
        session_key=str(run.request.key),
        session_id=run.session_id,
        stop_reason=StopReason.INTERRUPTED,
        payloads=tuple(one for one in said if one.strip()),
        provider="",
        model="",
        usage=Usage(),
        started_at=run.accepted_at,
        ended_at=now,
        error=RunFailure("run.interrupted", INTERRUPTED, retryable=True),
    )
    settle(unit, result, tail, ending, guests)
    if run.request.reply_to is not None:
        announce(unit, result, run.request.reply_to, parts)
