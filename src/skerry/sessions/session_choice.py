"""Selection of the session that a message enters: the present one, a new one, or a resumed one.

The selection is written in the unit of the message, so that after a crash either the old session
without the message exists, or the new one with it.
"""

import re
from collections.abc import Sequence
from dataclasses import dataclass
from datetime import datetime, timedelta, tzinfo
from enum import StrEnum
from typing import Final

from msgspec import Struct
from msgspec.structs import replace

from skerry.config.session import ResetConfig, ResetMode, SessionConfig
from skerry.infra.clock import DAY_MS
from skerry.model.ids import SessionId, SessionKey, SessionKind
from skerry.model.message import Message, notice
from skerry.model.origin import Origin
from skerry.model.rights import Rights
from skerry.model.run import OpeningKind, Purpose, RunRequest, SessionOpening
from skerry.model.session import SessionEntry
from skerry.sessions.compaction_cut import model_entries
from skerry.store import Reader, Unit, archive, sessions

AT_HOUR: Final = 4
IDLE_MINUTES: Final = 60
_MINUTE_MS: Final = 60_000
_WITHOUT_PEOPLE: Final = frozenset(
    {SessionKind.CRON, SessionKind.HOOK, SessionKind.NODE, SessionKind.SUBAGENT}
)


class Expiry(StrEnum):
    """The limit that ended a session."""

    DAILY = "daily"
    IDLE = "idle"


class SessionLimits(Struct, frozen=True):
    """Lifetime of a session; None is no limit of that kind."""

    at_hour: int | None = None
    """0 to 23, local time."""
    idle_minutes: int | None = None

    def passed(self, spoke: int, now: int, zone: tzinfo | None = None) -> Expiry | None:
        """Returns the first limit that was reached since a person's last message; None without one.

        Args:
            spoke: Time of the last message, in ms since 1970; 0 without one, which never expires.
            now: Time at which the next message arrives.
            zone: Time zone; None is the zone of the machine.

        """
        if not spoke:
            return None
        ends: list[tuple[int, Expiry]] = []
        if self.idle_minutes is not None and now > spoke + self.idle_minutes * _MINUTE_MS:
            ends.append((spoke + self.idle_minutes * _MINUTE_MS, Expiry.IDLE))
        if self.at_hour is not None and spoke < (end := boundary(now, self.at_hour, zone)):
            # The first boundary since then counts, not the last one.
            ends.append((min(end, boundary(spoke + DAY_MS, self.at_hour, zone)), Expiry.DAILY))
        return min(ends)[1] if ends else None


def limits(config: SessionConfig, key: SessionKey, channel: str) -> SessionLimits:
    """Returns the limits of a conversation for a message that arrives over `channel`."""
    if key.kind in _WITHOUT_PEOPLE:
        return SessionLimits()
    for name, section in reversed(config.reset_by_channel.items()):
        if name.lower() == channel.lower():
            return _limits(section)
    kinds = {"dm": "direct"}
    by_type = {kinds.get(kind, kind): reset for kind, reset in config.reset_by_type.items()}
    if config.reset is None and not by_type and config.idle_minutes is not None:
        return SessionLimits(idle_minutes=config.idle_minutes)
    sections = (by_type.get(kind_of(key)) if by_type else None, config.reset)
    return _limits(*(section for section in sections if section is not None))


def kind_of(key: SessionKey) -> str:
    """Returns `thread`, `group` or `direct`."""
    if {"thread", "topic"} & set(key.scope[1:]):
        return "thread"
    return "group" if key.kind in {SessionKind.GROUP, SessionKind.CHANNEL} else "direct"


def boundary(now: int, hour: int, zone: tzinfo | None = None) -> int:
    """Returns the last time at or before `now` at which it was `hour` o'clock, in milliseconds.

    If a clock change skips the hour, returns the moment of the change; if the hour occurs twice,
    returns the first.
    """
    local_time = datetime.fromtimestamp(now / 1000, zone).replace(
        hour=hour, minute=0, second=0, microsecond=0, fold=0
    )
    while (at := int(local_time.timestamp() * 1000)) > now:
        local_time -= timedelta(days=1)
    return at


def _limits(*sections: ResetConfig) -> SessionLimits:
    """Combines sections: the first that sets a value counts; the default mode is daily."""
    mode = next((section.mode for section in sections if section.mode), ResetMode.DAILY)
    hour = next((section.at_hour for section in sections if section.at_hour is not None), None)
    idle = next((section.idle_minutes for section in sections if section.idle_minutes), None)
    match mode:
        case ResetMode.NONE:
            return SessionLimits()
        case ResetMode.IDLE:
            return SessionLimits(idle_minutes=idle or IDLE_MINUTES)
        case ResetMode.DAILY:
            return SessionLimits(AT_HOUR if hour is None else hour, idle)


RESTORE: Final = "restore"
FRESH: Final = "fresh"
UNUSED_NOTICE: Final = (
    "🌱 A new conversation: the last one was put away, unused for long. `/resume` brings it back."
)
OFFERED: Final = 9
"""Limit on the earlier sessions that a person can select by their position."""
_RESUME: Final = re.compile(r"/resume(?:[:\s]\s*(\S*))?", re.IGNORECASE)
_SEARCHED_ENTRIES: Final = 50
"""Limit on the entries that are searched for a message; a longer session counts as used."""


@dataclass(frozen=True, slots=True)
class OpenedSession:
    """The session that a message enters, and the session that it ended."""

    session_id: SessionId
    tail: int
    request: RunRequest
    """The request, with the effect of its opening."""
    ended: SessionEntry | None = None
    """The archived session, if any; `reason` has the reason."""
    reason: str = ""
    """`new`, `reset`, `daily`, `idle`, `fresh` for a run that always begins a session, or `restore`
    when an earlier session replaced it."""
    began: bool = False
    """True when the session is new."""
    notes: tuple[Message, ...] = ()
    """Notices for the person, stored before the message in the transcript."""


def opening(request: RunRequest, triggers: Sequence[str]) -> RunRequest:
    """Parses a trigger or `/resume` in the text; returns the request with its opening, if any.

    A trigger is the whole text or is followed by a space; the rest becomes the first message of the
    new session. Only the owner, and persons in a direct chat, can use triggers.
    """
    if request.purpose is not Purpose.MESSAGE or not _may_open(request):
        return request
    text = request.text.strip()
    if match := _RESUME.fullmatch(text):
        target = match[1] or ""
        if target.lower() == "list" or request.images:
            return request
        return replace(request, opening=SessionOpening(OpeningKind.RESUME, target=target))
    lowered = text.lower()
    for trigger in triggers:
        if not lowered.startswith(trigger.lower()):
            continue
        words_after = text[len(trigger) :]
        if words_after and not words_after[0].isspace():
            continue
        kind = OpeningKind.RESET if trigger.lower() == "/reset" else OpeningKind.NEW
        bare = not (words_after.strip() or request.images)
        words = text if bare else words_after.strip()
        return replace(request, text=words, opening=SessionOpening(kind, bare=bare))
    return request


def _may_open(request: RunRequest) -> bool:
    if request.may is Rights.NONE:
        return False
    return request.origin is Origin.OWNER or request.key.kind is SessionKind.DIRECT


def enter(
    unit: Unit, request: RunRequest, limits: SessionLimits | None, new_id: SessionId, at: int
) -> OpenedSession:
    """Returns the session that the message enters; begins it as `new_id`, or restores one.

    Args:
        unit: Unit that writes the message.
        request: The request with the message.
        limits: Lifetime of the session; None if the message does not count as a turn.
        new_id: Id for a new session.
        at: Time at which the message arrived, in ms.

    """
    present = sessions.present(unit, request.key)
    new = request.opening
    if new is not None and not new.done:
        if new.kind is OpeningKind.RESUME:
            return _resume(unit, request, new, new_id, at)
        return _anew(unit, request, new, new_id, at)
    if present is None:
        return _first(unit, request, limits, new_id, at)
    session_id, tail, spoke = present
    if request.fresh and tail:
        ended = archive.reset(unit, request.key, new_id, at)
        return OpenedSession(new_id, 0, request, ended, FRESH, began=True)
    passed = limits.passed(spoke, at) if limits is not None else None
    if limits is None or passed is None:
        return OpenedSession(session_id, tail, request)
    ended = archive.reset(unit, request.key, new_id, at, expired=True)
    notes = (notice(_expired(passed, limits), at),)
    return OpenedSession(new_id, 0, request, ended, passed.value, began=True, notes=notes)


def notices(request: RunRequest, limits: SessionLimits | None) -> tuple[str, ...]:
    """Returns the text of each notice that `enter` may place before the message."""
    opening = request.opening
    if opening is not None and not opening.done:
        # The id of the ended session does not appear in the notice.
        return (begun_notice(replace(opening, ended=SessionId("any"))),)
    if limits is None:
        return ()
    expired = {
        Expiry.DAILY: limits.at_hour is not None,
        Expiry.IDLE: limits.idle_minutes is not None,
    }
    return (UNUSED_NOTICE, *(_expired(kind, limits) for kind, is_set in expired.items() if is_set))


def _first(
    unit: Unit, request: RunRequest, limits: SessionLimits | None, new_id: SessionId, at: int
) -> OpenedSession:
    """Begins the first session, or the next after an archived one, which adds a notice."""
    last = archive.last_archived(unit, request.key)
    sessions.begin(unit, request.key, new_id, at)
    if last is None:
        return OpenedSession(new_id, 0, request, began=True)
    archive.change(unit, new_id, label=last.label, settings=last.settings.after_expiry())
    notes = (notice(UNUSED_NOTICE, at),) if limits is not None else ()
    return OpenedSession(new_id, 0, request, began=True, notes=notes)


def _anew(
    unit: Unit, request: RunRequest, opening: SessionOpening, new_id: SessionId, at: int
) -> OpenedSession:
    old = sessions.find(unit, str(request.key))
    ended = None
    session_id, tail = new_id, 0
    if old is not None and not _is_used(unit, old):
        session_id, tail = old.session_id, old.tail
    else:
        ended = archive.reset(unit, request.key, new_id, at)
    if opening.model is not None:
        new = sessions.get(unit, session_id)
        if new is not None:
            settings = new.settings.with_model(opening.model)
            archive.change(unit, session_id, label=new.label, settings=settings)
    completed = replace(opening, done=True, ended=ended.session_id if ended else None)
    notes: tuple[Message, ...] = ()
    if ended is not None and not opening.bare:
        notes = (notice(begun_notice(completed), at),)
    return OpenedSession(
        session_id,
        tail,
        replace(request, opening=completed),
        ended,
        opening.kind.value,
        began=session_id == new_id,
        notes=notes,
    )


def _resume(
    unit: Unit, request: RunRequest, resumed: SessionOpening, new_id: SessionId, at: int
) -> OpenedSession:
    session = chosen_session(archive.earlier(unit, str(request.key), 1000), resumed.target)
    if session is None:
        session_id, tail = sessions.ensure(unit, request.key, new_id, at)
        return OpenedSession(session_id, tail, request, began=session_id == new_id)
    displaced = archive.restore(unit, session, at)
    completed = replace(resumed, done=True, ended=displaced.session_id if displaced else None)
    changed = replace(request, opening=completed)
    return OpenedSession(session.session_id, session.tail, changed, displaced, RESTORE)


def chosen_session(earlier: Sequence[SessionEntry], target: str) -> SessionEntry | None:
    """Returns the selected session: by position, by the start of its id, or by default the last."""
    if not target:
        return earlier[0] if earlier else None
    if target.isdecimal() and len(target) == 1:
        index = int(target) - 1
        return earlier[index] if 0 <= index < len(earlier) else None
    prefix = target.lower().rstrip("…")
    fitting = [session for session in earlier if session.session_id.lower().startswith(prefix)]
    return fitting[0] if len(fitting) == 1 else None


def begun_notice(opening: SessionOpening) -> str:
    """Returns the notice about a session that a person began."""
    model = f" with `{opening.model}`" if opening.model else ""
    back = " `/resume` brings the last one back." if opening.ended else ""
    return f"🌱 A new conversation{model}.{back}"


def _expired(passed: Expiry, limits: SessionLimits) -> str:
    if passed is Expiry.DAILY:
        reason = f"as every day at {limits.at_hour:02}:00"
    else:
        idle = limits.idle_minutes
        reason = f"after {idle} minute{'' if idle == 1 else 's'} without a message"
    return f"🌱 A new conversation, {reason}. `/resume` brings the last one back."


def _is_used(reader: Reader, session: SessionEntry) -> bool:
    """Returns whether the session has entries other than commands."""
    if session.user_at or session.tail > _SEARCHED_ENTRIES:
        return True
    entries = sessions.entries(reader, session.session_id, limit=_SEARCHED_ENTRIES)
    return bool(model_entries([(entry.seq, entry.message) for entry in entries]))


def listed(earlier: Sequence[SessionEntry], titles: Sequence[str]) -> list[str]:
    """Returns a Markdown line for each session that can be restored."""
    return [
        f"{number}. {title} ({_day(session.user_at)}, `{session.session_id[:8]}`)"
        for number, (session, title) in enumerate(zip(earlier, titles, strict=True), 1)
    ]


def _day(milliseconds: int) -> str:
    return f"{datetime.fromtimestamp(milliseconds / 1000).astimezone():%Y-%m-%d %H:%M}"
