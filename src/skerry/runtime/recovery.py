"""Recovery at the start of the runs that the last process left open (decisions 3).

A run that had left no trace runs again under its id, if its message is the last of its session and
few starts have tried. One with a trace goes on behind its last durable step, if nothing of it is
open but calls of tools that have no effect, and behind the last block of its answer that was sent.
Any other is closed: its open tool calls get aborted results, its partial text is kept, and the
person is told, with a way to retry. Messages that had entered it end with it, as they would have
without the crash: who wrote them is told once.
"""

import logging
from collections import defaultdict
from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import dataclass
from functools import partial
from typing import Final

from msgspec.structs import replace

from skerry.config.session import SendPolicy
from skerry.hooks.hooks import Hooks
from skerry.infra.clock import Clock
from skerry.model.errors import InvalidSessionKeyError
from skerry.model.ids import RunId, SessionKey
from skerry.model.inbound import PeerKind, ReplyTo
from skerry.model.message import Message, is_note, open_calls
from skerry.model.origin import Origin
from skerry.model.queue import QueueMode
from skerry.model.run import Inline, Purpose, RunFailure, RunRequest, RunResult, StopReason
from skerry.model.session import SessionSettings
from skerry.policy.access import WRITE
from skerry.replies.chunking import remainder
from skerry.runtime.finalize import (
    COMMAND_INTERRUPTED,
    INTERRUPTED,
    Block,
    Outgoing,
    add_to_outbox,
    closing,
    end_notices,
    for_guest,
    outgoing,
    payloads,
    run_messages,
    settle,
)
from skerry.runtime.run_context import run_context
from skerry.runtime.run_hooks import TranscriptHooks
from skerry.sessions.send_policy import sends_to
from skerry.store import Reader, Store, Unit, approvals, inbound, outbox, runs, sessions

logger = logging.getLogger(__name__)

MAX_RESTARTS: Final = 5
"""A run that was running at this many ends of the process may be what ends it."""

UNREADABLE: Final = (
    "⚠️ I could not read your message any more after the restart: its record is damaged. Please"
    " send it again."
)
"""Notice to the person about a run whose row cannot be read."""

Parts = Callable[[ReplyTo, str], list[str]]


@dataclass(frozen=True, slots=True)
class RunFacts:
    """Facts about open runs that other modules provide."""

    harmless: frozenset[str] = frozenset()
    """Tools that have no effect: a call that broke off may be made again."""
    is_command: Callable[[RunRequest], bool] = lambda _: False
    """True when the person has to give the command again, for `/retry` leaves commands alone."""


async def recover(
    store: Store,
    clock: Clock,
    parts: Parts,
    hooks: Hooks,
    policy: SendPolicy | None = None,
    facts: RunFacts | None = None,
) -> list[runs.OpenRun]:
    """Closes what cannot run again; returns what is to run, in the order of acceptance."""
    if not await store.read(runs.any_open):
        return []  # an ordinary start writes nothing
    policy, facts = policy or SendPolicy(), facts or RunFacts()
    open_runs = await store.read(partial(_sorted, policy=policy, facts=facts))
    now = clock.now_ms()
    closings = [
        await _closing(interrupted, now, parts, hooks, facts)
        for interrupted in open_runs.interrupted
    ]
    notices: list[Outgoing] = [
        [(broken.to, parts(broken.to, UNREADABLE))] if broken.to else []
        for broken in open_runs.broken
    ]

    def write(unit: Unit) -> list[runs.OpenRun]:
        for run in open_runs.again:
            if run.entry and run.host is None:
                runs.restart(unit, run)
        for closing_ in closings:
            _close(unit, closing_)
        for broken, going in zip(open_runs.broken, notices, strict=True):
            _close_broken(unit, broken, going, now)
        return open_runs.again

    return await store.write(write)


@dataclass(frozen=True, slots=True)
class _Interrupted:
    """A run that cannot run again: the runs that end with it, and what it has said."""

    run: runs.OpenRun
    guests: list[RunId]
    messages: list[Message]
    to: ReplyTo | None
    """Address for the notice; None if nobody gets one, or the session is mute."""
    preview: int
    """Serial of the preview that its last words complete; 0 without one."""


@dataclass(frozen=True, slots=True)
class _OpenRuns:
    """Open runs that a start finds."""

    interrupted: list[_Interrupted]
    again: list[runs.OpenRun]
    broken: list["_Broken"]


@dataclass(frozen=True, slots=True)
class _Broken:
    """A run that cannot be read."""

    run: runs.BrokenRun
    guests: list[RunId]
    """The runs whose messages had entered it."""
    to: ReplyTo | None
    """Address for the notice; None if nobody gets one."""


@dataclass(frozen=True, slots=True)
class _Closing:
    """Result and last entries of an interrupted run."""

    result: RunResult
    guests: list[RunId]
    entries: Sequence[Message]
    going: Outgoing


def _sorted(reader: Reader, policy: SendPolicy, facts: RunFacts) -> _OpenRuns:
    guests: dict[RunId, list[runs.OpenRun]] = defaultdict(list)
    open_runs = _OpenRuns([], [], [])
    unfinished = [replace(run, request=with_scopes(run.request)) for run in runs.unfinished(reader)]
    for run in unfinished:
        if run.host is not None:
            guests[run.host].append(run)
    for run in unfinished:
        run_id = run.request.run_id
        if run.host is not None:
            continue  # it ends with its host
        overtaken = run.entry and run.entry != sessions.last_message(reader, run.session_id)
        if run.left_trace:
            ended = not _goes_on(reader, run, guests[run_id], facts)
        else:
            ended = bool(overtaken)
        if ended or run.restarts >= MAX_RESTARTS:
            logger.warning("run %s was interrupted; it is closed", run_id)
            messages = run_messages(reader, run.session_id, run_id, run.entry)
            own, request = sessions.settings(reader, run.session_id), run.request
            to = sends_to(policy, own, request.key, request.reply_to)
            entered = [guest.request.run_id for guest in guests[run_id]]
            preview = outbox.open_preview(reader, run_id) if run.delivered is not None else 0
            open_runs.interrupted.append(_Interrupted(run, entered, messages, to, preview))
        else:
            open_runs.again.extend((run, *guests[run_id]))  # those that were collected with it
    open_runs.broken.extend(_unreadable(reader, guests))
    return open_runs


def _unreadable(
    reader: Reader, guests: Mapping[RunId, Sequence[runs.OpenRun]]
) -> Iterator[_Broken]:
    for run in runs.unreadable(reader):
        logger.error("run %s cannot be read and is closed: %s", run.run_id, run.reason)
        to = inbound.source(reader, run.run_id, _peer_kind(run.session_key))
        yield _Broken(run, [guest.request.run_id for guest in guests.get(run.run_id, ())], to)


def _goes_on(
    reader: Reader, run: runs.OpenRun, guests: Sequence[runs.OpenRun], facts: RunFacts
) -> bool:
    """Returns whether a run can go on behind its last durable step: nothing with an effect is open.

    One that left a trace and no entry may have done anything: hooks keep its entries back. Only of
    blocks it is known that they are all.
    """
    run_id = run.request.run_id
    if not run.entry or facts.is_command(run.request):
        return False
    if sessions.last_message(reader, run.session_id) is None:
        return False  # its conversation was reset
    own = {run_id, *(guest.request.run_id for guest in guests)}
    entries = sessions.entries(reader, run.session_id, limit=-1, after=run.entry)
    spoken = [entry for entry in entries if is_note(entry.message) != "compaction"]
    if any(entry.run_id not in own for entry in spoken) or not (spoken or run.only_text_sent):
        return False
    for call in open_calls(entry.message for entry in spoken):
        if approvals.waits(reader, run_id, call.id):
            return True  # it has not begun, and neither has any behind it
        if call.name not in facts.harmless:
            return False
    return True


async def _closing(
    interrupted: _Interrupted,
    now: int,
    parts: Parts,
    hooks: Hooks,
    facts: RunFacts,
) -> _Closing:
    """Returns how the run ends, after the hooks that an end passes."""
    run, to = interrupted.run, interrupted.to
    why = COMMAND_INTERRUPTED if facts.is_command(run.request) else INTERRUPTED
    ids = run.request.run_id, str(run.request.key), run.session_id
    failure = RunFailure("run.interrupted", why, retryable=True)
    result = RunResult.without_model(ids, StopReason.INTERRUPTED, (run.accepted_at, now), failure)
    ending = closing(interrupted.messages, "aborted", result, run.partial)
    result = replace(result, payloads=payloads([*interrupted.messages, *ending]))
    context = run_context(run.request, run.session_id)
    going = Outgoing()
    if to is not None:
        unsaid = _unsaid(run, result)
        if unsaid:
            unsaid[0] = replace(unsaid[0], completes=interrupted.preview)
        blocks = [*unsaid, *end_notices(result)]
        going = await outgoing(hooks, context, blocks, to, parts)
    entries = await TranscriptHooks(hooks).entries(ending, context)
    return _Closing(result, interrupted.guests, entries, going)


def _close_broken(unit: Unit, broken: _Broken, going: Outgoing, now: int) -> None:
    """Ends a run that cannot be read: its conversation has it, and the person is told.

    The row of its session may be damaged too, so nothing is asked of it but its last number.
    """
    run = broken.run
    ids = run.run_id, run.session_key, run.session_id
    failure = RunFailure("run.corrupt", UNREADABLE)
    result = RunResult.without_model(ids, StopReason.INTERRUPTED, (run.accepted_at, now), failure)
    runs.close_unreadable(unit, run, result)
    for guest in broken.guests:
        runs.finish(unit, for_guest(result, guest))
    tail = sessions.tail(unit, run.session_id)
    if tail and run.entry:
        own = run_messages(unit, run.session_id, run.run_id, run.entry)
        sessions.append(
            unit, run.session_id, tail, run.run_id, closing(own, "aborted", result), now
        )
    if going:
        add_to_outbox(unit, result, going, outbox.next_block(unit, run.run_id))


def _peer_kind(key: str) -> PeerKind:
    """Returns which kind of chat a key names; a direct one where it cannot be read."""
    try:
        return PeerKind(SessionKey.parse(key).kind)
    except (InvalidSessionKeyError, ValueError):
        return PeerKind.DIRECT


def _unsaid(run: runs.OpenRun, result: RunResult) -> list[Block]:
    """Returns the part that the person has not received: all, or the text of no block."""
    if run.delivered is None:
        return [Block(text) for text in result.payloads]
    unsent = remainder(run.partial, run.delivered).text.strip("\n")
    return [Block(unsent)] if unsent.strip() else []


def _close(unit: Unit, closing_: _Closing) -> None:
    result = closing_.result
    settle(unit, result, sessions.tail(unit, result.session_id), closing_.entries, closing_.guests)
    if closing_.going:
        add_to_outbox(unit, result, closing_.going, outbox.next_block(unit, result.run_id))


LEAST: Final = (WRITE,)
"""The scopes that every client held whose message was accepted."""


def with_scopes(request: RunRequest) -> RunRequest:
    """Returns the request with the least scopes, where a client sent it and none are stored.

    Commands, beginning a conversation anew and settings need more: the command is refused when its
    turn comes, and what else is said runs without the settings. The run of a person on a platform
    and that of a checklist stay as they are.
    """
    is_clients = request.reply_to is None and request.origin is Origin.OWNER
    if request.scopes is not None or not is_clients or request.purpose is not Purpose.MESSAGE:
        return request
    return _without_settings(_without_opening(replace(request, scopes=LEAST)))


def _without_opening(request: RunRequest) -> RunRequest:
    """Returns the request as the command that it is, so that it is refused as one."""
    opening = request.opening
    if opening is None or opening.done:
        return request
    words = opening.target if opening.bare else request.text
    return replace(request, text=f"/{opening.kind} {words}".strip(), opening=None)


def _without_settings(request: RunRequest) -> RunRequest:
    inline = request.inline
    if inline is None or inline.settings == SessionSettings():
        return request
    logger.warning("run %s is done without the settings that its message names", request.run_id)
    own = inline.settings
    return replace(
        request,
        inline=Inline(inline.sent, SessionSettings(), inline.status),
        thinking=None if own.thinking_level else request.thinking,
        queue_mode=QueueMode.OWN if own.queue_mode else request.queue_mode,
    )
