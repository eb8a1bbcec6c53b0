"""`/new`, `/reset` and `/resume`: they say what the message did as it was accepted."""

from skerry.commands.table import Command, CommandCall, CommandError
from skerry.model.run import SessionOpening
from skerry.model.session import SessionEntry
from skerry.sessions.session_choice import OFFERED, begun_notice, listed
from skerry.store import Reader, Store, archive, sessions


def session_commands(store: Store) -> tuple[Command, ...]:
    """Returns the commands that begin conversations anew and brings them back."""

    async def anew(call: CommandCall) -> str:
        if call.opening is None or not call.opening.done:
            raise CommandError(f"Only the owner may use /{call.name} here.")
        if call.opening.ended is None:
            return "Nothing was said in this conversation yet; it is as good as new."
        return begun_notice(call.opening)

    async def resume(call: CommandCall) -> str:
        if call.opening is None and call.arguments.lower() != "list":
            raise CommandError("Only the owner may use /resume here.")
        present, lines = await store.read(lambda reader: _look(reader, str(call.key)))
        return _resumed(call.opening, present, lines)

    return (
        Command("new", "begins a new conversation", anew, accepts_arguments=True, owner_only=False),
        Command(
            "reset", "begins a new conversation", anew, accepts_arguments=True, owner_only=False
        ),
        Command(
            "resume",
            "brings the last conversation back; `list` shows all",
            resume,
            accepts_arguments=True,
            owner_only=False,
        ),
    )


def _resumed(opening: SessionOpening | None, present: str, lines: list[str]) -> str:
    """Returns the answer: the session that was resumed, and the others that can be."""
    others = "\n".join(["", *lines, "", "`/resume 1`, or an id, brings one back."])
    if opening is not None and opening.done:
        text = f"↩️ Back in “{present}”."
        return text + ("\n\nEarlier ones:\n" + others if lines else "")
    if not lines:
        return "There is no earlier session of this conversation."
    if opening is not None and opening.target:
        return f"No earlier session is called {opening.target!r}. There are:\n" + others
    return "Earlier sessions of this conversation:\n" + others


def _look(reader: Reader, key: str) -> tuple[str, list[str]]:
    """Returns the present session's title, and a line for each that can be brought back."""

    def name(session: SessionEntry) -> str:
        return session.label or sessions.title(reader, session.session_id) or "untitled"

    present = sessions.find(reader, key)
    earlier = archive.earlier(reader, key, OFFERED)
    return name(present) if present else "", listed(earlier, [name(session) for session in earlier])
