"""`/new`, `/reset` and `/resume`: they report the effect of the message when it was accepted."""

from skerry.commands.table import Command, CommandCall, CommandError
from skerry.model.run import SessionOpening
from skerry.model.session import SessionEntry
from skerry.sessions.session_choice import OFFERED, begun_notice, listed
from skerry.store import Reader, Store, archive, sessions


def session_commands(store: Store) -> tuple[Command, ...]:
    """Returns the commands that start and resume sessions of a conversation."""

    async def anew(call: CommandCall) -> str:
        if call.opening is None or not call.opening.done:
            raise CommandError(f"Only the owner may use /{call.name} here.")
        if call.opening.ended is None:
            return "This conversation has no messages yet, so it is new already."
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
            "resumes the last conversation; `list` shows all",
            resume,
            accepts_arguments=True,
            owner_only=False,
        ),
    )


def _resumed(opening: SessionOpening | None, present: str, lines: list[str]) -> str:
    """Returns the answer: the resumed session, and the sessions that can be resumed."""
    list_text = "\n".join(
        ["", *lines, "", "Resume a session by its number or id, such as `/resume 1`."]
    )
    if opening is not None and opening.done:
        text = f"↩️ Back in “{present}”."
        return text + ("\n\nEarlier ones:\n" + list_text if lines else "")
    if not lines:
        return "There is no earlier session of this conversation."
    if opening is not None and opening.target:
        return f"Unknown session {opening.target!r}. Earlier sessions:\n" + list_text
    return "Earlier sessions of this conversation:\n" + list_text


def _look(reader: Reader, key: str) -> tuple[str, list[str]]:
    """Returns the present session's title, and a line for each session that can be resumed."""

    def name(session: SessionEntry) -> str:
        return session.label or sessions.title(reader, session.session_id) or "untitled"

    present = sessions.find(reader, key)
    earlier = archive.earlier(reader, key, OFFERED)
    return name(present) if present else "", listed(earlier, [name(session) for session in earlier])
