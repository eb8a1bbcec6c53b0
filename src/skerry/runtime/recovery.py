"""Recovers, at a start, the runs that were open when the last process ended (decisions 3).

A run without durable steps runs again under its id, if its message is the last of its session and
few starts have tried it. A run with durable steps continues after the last step and after the last
sent block of its answer, if its open tool calls have no effect. Any other run is closed: its open
tool calls get aborted results, its partial text is kept, and the person gets a notice with a way
to retry. Messages that had joined it end with it, as without the crash, with a single notice.
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
"""Number of process ends during a run after which the run is assumed to cause them."""

UNREADABLE: Final = (
    "⚠️ I could not read your message any more after the restart: its record is damaged. Please"
    " send it again."
)
"""Notice for the person about a run whose row cannot be read."""

Parts = Callable[[ReplyTo, str], list[str]]


@dataclass(frozen=True, slots=True)
class RunFacts:
    """Facts about open runs from other modules."""

    harmless: frozenset[str] = frozenset()
    """Names of the tools without an effect: their interrupted calls may be made again."""
    is_command: Callable[[RunRequest], bool] = lambda _: False
    """Returns whether the message is a command, which `/retry` does not repeat."""


async def recover(
    store: Store,
    clock: Clock,
    parts: Parts,
    hooks: Hooks,
    policy: SendPolicy | None = None,
    facts: RunFacts | None = None,
) -> list[runs.OpenRun]:
    """Closes the runs that cannot run again; returns the others, in the order of acceptance."""
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
        for run in open_runs.resumable:
            if run.entry and run.host is None:
                runs.restart(unit, run)
        for closing_ in closings:
            _close(unit, closing_)
        for broken, blocks in zip(open_runs.broken, notices, strict=True):
            _close_broken(unit, broken, blocks, now)
        return open_runs.resumable

    return await store.write(write)


@dataclass(frozen=True, slots=True)
class _Interrupted:
    """A run that cannot run again, with the runs that joined it, and its messages."""

    run: runs.OpenRun
    guests: list[RunId]
    messages: list[Message]
    to: ReplyTo | None
    """Address for the notice; None if there is none, or the session is muted."""
    preview: int
    """Serial of the preview that its last text completes; 0 for none."""


@dataclass(frozen=True, slots=True)
class _OpenRuns:
    """The open runs at a start."""

    interrupted: list[_Interrupted]
    resumable: list[runs.OpenRun]
    broken: list["_Broken"]


@dataclass(frozen=True, slots=True)
class _Broken:
    """A run that cannot be read."""

    run: runs.BrokenRun
    guests: list[RunId]
    """The runs whose messages had joined it."""
    to: ReplyTo | None
    """Address for the notice; None if there is none."""


@dataclass(frozen=True, slots=True)
class _Closing:
    """Result and last entries of an interrupted run."""

    result: RunResult
    guests: list[RunId]
    entries: Sequence[Message]
    blocks: Outgoing


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
            ended = not _can_continue(reader, run, guests[run_id], facts)
        else:
            ended = bool(overtaken)
        if ended or run.restarts >= MAX_RESTARTS:
            logger.warning("run %s was interrupted; it is closed", run_id)
            messages = run_messages(reader, run.session_id, run_id, run.entry)
            settings, request = sessions.settings(reader, run.session_id), run.request
            to = sends_to(policy, settings, request.key, request.reply_to)
            entered = [guest.request.run_id for guest in guests[run_id]]
            preview = outbox.open_preview(reader, run_id) if run.delivered is not None else 0
            open_runs.interrupted.append(_Interrupted(run, entered, messages, to, preview))
        else:
            open_runs.resumable.extend((run, *guests[run_id]))
    open_runs.broken.extend(_unreadable(reader, guests))
    return open_runs


def _unreadable(
    reader: Reader, guests: Mapping[RunId, Sequence[runs.OpenRun]]
) -> Iterator[_Broken]:
    for run in runs.unreadable(reader):
        logger.error("run %s cannot be read and is closed: %s", run.run_id, run.reason)
        to = inbound.source(reader, run.run_id, _peer_kind(run.session_key))
        yield _Broken(run, [guest.request.run_id for guest in guests.get(run.run_id, ())], to)


def _can_continue(
    reader: Reader, run: runs.OpenRun, guests: Sequence[runs.OpenRun], facts: RunFacts
) -> bool:
    """Returns whether a run can continue after its last durable step: no open call has an effect.

    A run with durable steps but without entries may have had effects, since hooks may keep entries
    out of the transcript; it continues only if it has done nothing but send blocks.
    """
    run_id = run.request.run_id
    if not run.entry or facts.is_command(run.request):
        return False
    if sessions.last_message(reader, run.session_id) is None:
        return False  # its conversation was reset
    run_ids = {run_id, *(guest.request.run_id for guest in guests)}
    stored = sessions.entries(reader, run.session_id, limit=-1, after=run.entry)
    entries = [entry for entry in stored if is_note(entry.message) != "compaction"]
    has_other = any(entry.run_id not in run_ids for entry in entries)
    if has_other or not (entries or run.only_text_sent):
        return False
    for call in open_calls(entry.message for entry in entries):
        if approvals.waits(reader, run_id, call.id):
            return True  # neither it nor a later call has begun
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
    """Returns the result and the entries of the run, after the hooks for them."""
    run, to = interrupted.run, interrupted.to
    notice = COMMAND_INTERRUPTED if facts.is_command(run.request) else INTERRUPTED
    ids = run.request.run_id, str(run.request.key), run.session_id
    failure = RunFailure("run.interrupted", notice, retryable=True)
    result = RunResult.without_model(ids, StopReason.INTERRUPTED, (run.accepted_at, now), failure)
    ending = closing(interrupted.messages, "aborted", result, run.partial)
    result = replace(result, payloads=payloads([*interrupted.messages, *ending]))
    context = run_context(run.request, run.session_id)
    outgoing_blocks = Outgoing()
    if to is not None:
        unsent = _unsent(run, result)
        if unsent:
            unsent[0] = replace(unsent[0], completes=interrupted.preview)
        blocks = [*unsent, *end_notices(result)]
        outgoing_blocks = await outgoing(hooks, context, blocks, to, parts)
    entries = await TranscriptHooks(hooks).entries(ending, context)
    return _Closing(result, interrupted.guests, entries, outgoing_blocks)


def _close_broken(unit: Unit, broken: _Broken, blocks: Outgoing, now: int) -> None:
    """Ends a run that cannot be read, in the transcript and with a notice to the person.

    The row of its session may be damaged too, so only its last entry number is read.
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
        messages = run_messages(unit, run.session_id, run.run_id, run.entry)
        sessions.append(
            unit, run.session_id, tail, run.run_id, closing(messages, "aborted", result), now
        )
    if blocks:
        add_to_outbox(unit, result, blocks, outbox.next_block(unit, run.run_id))


def _peer_kind(key: str) -> PeerKind:
    """Returns the kind of chat of a session key; direct if it cannot be parsed."""
    try:
        return PeerKind(SessionKey.parse(key).kind)
    except (InvalidSessionKeyError, ValueError):
        return PeerKind.DIRECT


def _unsent(run: runs.OpenRun, result: RunResult) -> list[Block]:
    """Returns the text that the person has not received: all, or the text after the last block."""
    if run.delivered is None:
        return [Block(text) for text in result.payloads]
    unsent = remainder(run.partial, run.delivered).text.strip("\n")
    return [Block(unsent)] if unsent.strip() else []


def _close(unit: Unit, closing_: _Closing) -> None:
    result = closing_.result
    settle(unit, result, sessions.tail(unit, result.session_id), closing_.entries, closing_.guests)
    if closing_.blocks:
        add_to_outbox(unit, result, closing_.blocks, outbox.next_block(unit, result.run_id))


BASE_SCOPES: Final = (WRITE,)
"""The scopes that every client needed for its message to be accepted."""


def with_scopes(request: RunRequest) -> RunRequest:
    """Returns the request with the least scopes, if it is a client's and has no stored scopes.

    Commands, a new conversation and settings need more scopes: the command is refused in its turn,
    and the rest of the message runs without the settings. Requests of a platform, and runs that the
    gateway starts, are not changed.
    """
    is_clients = request.reply_to is None and request.origin is Origin.OWNER
    if request.scopes is not None or not is_clients or request.purpose is not Purpose.MESSAGE:
        return request
    return _without_settings(_without_opening(replace(request, scopes=BASE_SCOPES)))


def _without_opening(request: RunRequest) -> RunRequest:
    """Returns the request with its opening as a command text, so that the command is refused."""
    opening = request.opening
    if opening is None or opening.done:
        return request
    words = opening.target if opening.bare else request.text
    return replace(request, text=f"/{opening.kind} {words}".strip(), opening=None)


def _without_settings(request: RunRequest) -> RunRequest:
    inline = request.inline
    if inline is None or inline.settings == SessionSettings():
        return request
    logger.warning("run %s runs without the settings in its message", request.run_id)
    settings = inline.settings
    return replace(
        request,
        inline=Inline(inline.sent, SessionSettings(), inline.status),
        thinking=None if settings.thinking_level else request.thinking,
        queue_mode=QueueMode.OWN_RUN if settings.queue_mode else request.queue_mode,
    )
