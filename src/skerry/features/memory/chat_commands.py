"""The commands `/remember` and `/forget`: the owner's own word, which no model reads before."""

from functools import partial

from skerry.commands.table import Command, CommandCall, CommandError
from skerry.features.memory.plugin import NEEDS
from skerry.features.memory.service import MemorySearchService
from skerry.model.errors import SkerryError
from skerry.model.origin import Origin
from skerry.model.redaction_report import Forgotten
from skerry.policy.access import ADMIN


def commands(service: MemorySearchService, plugin: str) -> tuple[Command, ...]:
    """Returns the commands, as brought by the `plugin` of this name."""
    return (
        Command(
            "remember",
            "notes what follows for every later conversation",
            partial(remember, service),
            accepts_arguments=True,
            plugin=plugin,
            scope=NEEDS["memory.write"].scope or ADMIN,
        ),
        Command(
            "forget",
            "erases every sentence with the words that follow, everywhere",
            partial(forget, service),
            accepts_arguments=True,
            plugin=plugin,
            scope=NEEDS["memory.forget"].scope or ADMIN,
        ),
    )


async def remember(service: MemorySearchService, call: CommandCall) -> str:
    """Writes the owner's words into the log of the day."""
    if not call.arguments:
        raise CommandError("Say what: `/remember The dentist is in Mill Road.`")
    try:
        noted = await service.write(
            call.key.agent, call.arguments, None, Origin.OWNER, str(call.key)
        )
    except SkerryError as error:
        raise CommandError(str(error)) from error
    return (
        f"Noted in `{noted.path}`, line {noted.start_line}."
        f" `skerry memory undo {noted.id}` takes it out again."
    )


async def forget(service: MemorySearchService, call: CommandCall) -> str:
    """Erases the sentences with the words, and returns a summary."""
    if not call.arguments:
        raise CommandError("Say which words: `/forget Mill Road`. Their sentences go.")
    try:
        done, _ = await service.forget(call.key.agent, call.arguments)
    except SkerryError as error:
        raise CommandError(str(error)) from error
    return summary(done)


def summary(done: Forgotten) -> str:
    """Summarises the erasure, for a chat (pure)."""
    parts = [
        f"{count} {single if count == 1 else several}"
        for count, single, several in (
            (len(done.lines), "statement in files", "statements in files"),
            (done.messages, "message", "messages"),
            (done.summaries, "summary", "summaries"),
            (done.replies, "reply", "replies"),
            (done.records, "record of a job or a sender", "records of jobs and senders"),
            (done.media, "copied file", "copied files"),
        )
        if count
    ]
    text = f"Forgotten: {', '.join(parts)}." if parts else "No text had these words."
    if done.left:
        text += f" It may stay in {', '.join(path for path, _ in done.left)}."
    if done.backups:
        names = ", ".join(backup.name for backup in done.backups)
        text += f" Backups that still have it: {names}."
    return text
