"""Archives and restores a conversation, as `archived` of `sessions.patch` requests."""

from collections.abc import Callable

from skerry.gateway.method import Call, RefusedError
from skerry.gateway.methods import rows
from skerry.model.ids import SessionKey
from skerry.model.session import SessionEntry
from skerry.sessions import session_hooks
from skerry.store import Reader, Unit, archive, session_listing, sessions
from skerry.store.session_listing import SessionFilter

Check = Callable[[SessionEntry | None], None]
"""Raises the refusal for the present session of the key, or for its absence."""


async def put_away(call: Call, key: SessionKey, check: Check) -> SessionEntry:
    """Removes a conversation from the list, but not from the search; undo with `bring_back`.

    Its runs are stopped.

    Raises:
        RefusedError: it is the main conversation, has no session, or `check` refuses it.
    """
    if rows.is_main(key):
        raise RefusedError(
            f"Cannot archive the main session ({key}).",
            "`skerry sessions reset` archives its session and starts a new one.",
        )
    context, now = call.context, call.context.clock.now_ms()

    def look(reader: Reader) -> SessionEntry | None:
        present = sessions.find(reader, str(key))
        check(present)
        return present

    if await context.store.read(look) is None:  # before any run is stopped
        raise _not_found(key, "conversation")

    def write(unit: Unit) -> SessionEntry | None:
        look(unit)
        call.effect(unit)
        return archive.archive_unused(unit, key, now)

    session = await context.dispatcher.run_exclusive(
        key, lambda: context.store.write(write), stopping="archive"
    )
    if session is None:
        raise _not_found(key, "conversation")
    session_hooks.ended(context.hooks, session, "archive")
    return session


async def bring_back(call: Call, key: SessionKey, check: Check) -> SessionEntry:
    """Returns the present session of a conversation; without one, restores the last archived one.

    Raises:
        RefusedError: it has no archived session either, or `check` refuses it.
    """
    context, now = call.context, call.context.clock.now_ms()

    def look(reader: Reader) -> SessionEntry:
        latest = sessions.find(reader, str(key)) or _archived_last(reader, key)
        check(latest)
        return latest

    present = await context.store.read(look)
    if present.archived is None:
        return present
    context.session_events.skip(present)

    def write(unit: Unit) -> tuple[SessionEntry, bool]:
        last = look(unit)
        if last.archived is None:  # another request restored it
            return last, False
        call.effect(unit)
        archive.restore(unit, last, now)
        return sessions.find(unit, str(key)) or last, True

    session, restored = await context.dispatcher.run_exclusive(
        key, lambda: context.store.write(write)
    )
    if restored:
        session_hooks.start(context.hooks, key, session.session_id, None)
    return session


def _archived_last(reader: Reader, key: SessionKey) -> SessionEntry:
    query = SessionFilter(key.agent, archived=True, keys=frozenset({str(key)}))
    last = session_listing.recent(reader, query, limit=1)
    if not last:
        raise _not_found(key, "archived conversation")
    return last[0]


def _not_found(key: SessionKey, kind: str) -> RefusedError:
    return RefusedError(f"Unknown {kind} {key}.")
