"""Selection of the session that a message enters: the present one, a new one, or a resumed one.

Decided and written in the unit that writes the message itself, so that a crash leaves the old
session without it or the new one with it.
"""

import re
from collections.abc import Sequence
from dataclasses import dataclass
from datetime import datetime
from typing import Final

from msgspec.structs import replace

from skerry.model.ids import SessionId, SessionKind
from skerry.model.message import Message
from skerry.model.origin import Origin
from skerry.model.rights import Rights
from skerry.model.run import Opening, OpeningKind, Purpose, RunRequest
from skerry.model.session import SessionEntry
from skerry.sessions.cutting import spoken
from skerry.sessions.history import notice
from skerry.sessions.resets import Expiry, Limits
from skerry.store import Reader, Unit, archive, sessions

RESTORE: Final = "restore"
PUT_AWAY: Final = (
    "🌱 A new conversation: the last one was put away, unused for long. `/resume` brings it back."
)
OFFERED: Final = 9
"""Earlier sessions that a person can name by their place."""
_RESUME: Final = re.compile(r"/resume(?:[:\s]\s*(\S*))?", re.IGNORECASE)
_LOOKED_AT: Final = 50
"""Entries of a session in which nobody spoke; with more it counts as used."""


@dataclass(frozen=True, slots=True)
class Opened:
    """The session that a message enters, and what became of the one before."""

    session_id: SessionId
    tail: int
    request: RunRequest
    """The request, with what its opening did."""
    ended: SessionEntry | None = None
    """The session that was archived, with the reason in `why`."""
    why: str = ""
    """`new`, `reset`, `daily`, `idle`, or `restore` when an earlier session took its place."""
    began: bool = False
    """True when the session is new."""
    notes: tuple[Message, ...] = ()
    """Notices for the person, placed before the message in the transcript."""


def opening(request: RunRequest, triggers: Sequence[str]) -> RunRequest:
    """Return the request with what its text does to the conversation, if it does something.

    A trigger is the whole text or stands before a space; the rest becomes the first message of the
    new session. It counts where it is the owner's, or in a direct chat of one's own.
    """
    if request.purpose is not Purpose.MESSAGE or not _may_open(request):
        return request
    text = request.text.strip()
    if found := _RESUME.fullmatch(text):
        target = found[1] or ""
        if target.lower() == "list" or request.images:
            return request
        return replace(request, opening=Opening(OpeningKind.RESUME, target=target))
    lowered = text.lower()
    for trigger in triggers:
        if not lowered.startswith(trigger.lower()):
            continue
        rest = text[len(trigger) :]
        if rest and not rest[0].isspace():
            continue
        kind = OpeningKind.RESET if trigger.lower() == "/reset" else OpeningKind.NEW
        bare = not (rest.strip() or request.images)
        said = text if bare else rest.strip()
        return replace(request, text=said, opening=Opening(kind, bare=bare))
    return request


def _may_open(request: RunRequest) -> bool:
    if request.may is Rights.NONE:
        return False
    return request.origin is Origin.OWNER or request.key.kind is SessionKind.DIRECT


def enter(
    unit: Unit, request: RunRequest, limits: Limits | None, new_id: SessionId, at: int
) -> Opened:
    """Return the session that the message enters; begin it as `new_id`, or bring it back, if due.

    Args:
        unit: The one that writes the message.
        request: What arrived.
        limits: How long a session lives; None where the message does not count as a turn.
        new_id: The id that a new session gets.
        at: When the message arrived.

    """
    found = sessions.present(unit, request.key)
    wanted = request.opening
    if wanted is not None and not wanted.done:
        if wanted.kind is OpeningKind.RESUME:
            return _resume(unit, request, wanted, new_id, at)
        return _anew(unit, request, wanted, new_id, at)
    if found is None:
        return _first(unit, request, limits, new_id, at)
    session_id, tail, spoke = found
    passed = limits.passed(spoke, at) if limits is not None else None
    if limits is None or passed is None:
        return Opened(session_id, tail, request)
    ended = archive.reset(unit, request.key, new_id, at, expired=True)
    said = (notice(_expired(passed, limits), at),)
    return Opened(new_id, 0, request, ended, passed.value, began=True, notes=said)


def _first(
    unit: Unit, request: RunRequest, limits: Limits | None, new_id: SessionId, at: int
) -> Opened:
    """Begin the session of a conversation that has none; of one put away, say so to a person."""
    last = archive.last_put_away(unit, request.key)
    sessions.begin(unit, request.key, new_id, at)
    if last is None:
        return Opened(new_id, 0, request, began=True)
    archive.change(unit, new_id, label=last.label, settings=last.settings.after_expiry())
    said = (notice(PUT_AWAY, at),) if limits is not None else ()
    return Opened(new_id, 0, request, began=True, notes=said)


def _anew(unit: Unit, request: RunRequest, wanted: Opening, new_id: SessionId, at: int) -> Opened:
    old = sessions.find(unit, str(request.key))
    ended = None
    session_id, tail = new_id, 0
    if old is not None and not _is_used(unit, old):
        session_id, tail = old.session_id, old.tail
    else:
        ended = archive.reset(unit, request.key, new_id, at)
    if wanted.model is not None:
        new = sessions.get(unit, session_id)
        if new is not None:
            own = new.settings.with_model(wanted.model)
            archive.change(unit, session_id, label=new.label, settings=own)
    done = replace(wanted, done=True, ended=ended.session_id if ended else None)
    said: tuple[Message, ...] = ()
    if ended is not None and not wanted.bare:
        said = (notice(begun(done), at),)
    return Opened(
        session_id,
        tail,
        replace(request, opening=done),
        ended,
        wanted.kind.value,
        began=session_id == new_id,
        notes=said,
    )


def _resume(unit: Unit, request: RunRequest, wanted: Opening, new_id: SessionId, at: int) -> Opened:
    session = meant(archive.earlier(unit, str(request.key), 1000), wanted.target)
    if session is None:
        session_id, tail = sessions.ensure(unit, request.key, new_id, at)
        return Opened(session_id, tail, request, began=session_id == new_id)
    displaced = archive.restore(unit, session, at)
    done = replace(wanted, done=True, ended=displaced.session_id if displaced else None)
    changed = replace(request, opening=done)
    return Opened(session.session_id, session.tail, changed, displaced, RESTORE)


def meant(earlier: Sequence[SessionEntry], target: str) -> SessionEntry | None:
    """Return the session that the person means: the last, one by its place, or one by its id."""
    if not target:
        return earlier[0] if earlier else None
    if target.isdecimal() and len(target) == 1:
        place = int(target) - 1
        return earlier[place] if 0 <= place < len(earlier) else None
    wanted = target.lower().rstrip("…")
    fitting = [one for one in earlier if one.session_id.lower().startswith(wanted)]
    return fitting[0] if len(fitting) == 1 else None


def begun(done: Opening) -> str:
    """Returns the notice about a session that the person began."""
    model = f" with `{done.model}`" if done.model else ""
    back = " `/resume` brings the last one back." if done.ended else ""
    return f"🌱 A new conversation{model}.{back}"


def _expired(passed: Expiry, limits: Limits) -> str:
    if passed is Expiry.DAILY:
        why = f"as every day at {limits.at_hour:02}:00"
    else:
        idle = limits.idle_minutes
        why = f"after {idle} minute{'' if idle == 1 else 's'} without a message"
    return f"🌱 A new conversation, {why}. `/resume` brings the last one back."


def _is_used(reader: Reader, session: SessionEntry) -> bool:
    """Return whether there is anything but commands in the session."""
    if session.user_at or session.tail > _LOOKED_AT:
        return True
    said = sessions.entries(reader, session.session_id, limit=_LOOKED_AT)
    return bool(spoken([(one.seq, one.message) for one in said]))


def listed(earlier: Sequence[SessionEntry], titles: Sequence[str]) -> list[str]:
    """Return a line for each session that can be brought back, in Markdown."""
    return [
        f"{place}. {title} ({_day(one.user_at)}, `{one.session_id[:8]}`)"
        for place, (one, title) in enumerate(zip(earlier, titles, strict=True), 1)
    ]


def _day(milliseconds: int) -> str:
    return f"{datetime.fromtimestamp(milliseconds / 1000).astimezone():%Y-%m-%d %H:%M}"
