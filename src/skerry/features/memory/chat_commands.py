"""The commands `/remember` and `/forget`; the gateway runs them without a model."""

from functools import partial

from skerry.commands.table import Command, CommandCall, CommandError
from skerry.features.memory.plugin import NEEDS
from skerry.features.memory.service import MemorySearchService
from skerry.model.errors import SkerryError
from skerry.model.origin import Origin
from skerry.model.redaction_report import Forgotten
from skerry.policy.access import ADMIN


def commands(service: MemorySearchService, plugin: str) -> tuple[Command, ...]:
    """Returns the commands, registered by the `plugin` of this name."""
    return (
        Command(
            "remember",
            "writes a note for every later conversation",
            partial(remember, service),
            accepts_arguments=True,
            plugin=plugin,
            scope=NEEDS["memory.write"].scope or ADMIN,
        ),
        Command(
            "forget",
            "erases every sentence with these words, everywhere",
            partial(forget, service),
            accepts_arguments=True,
            plugin=plugin,
            scope=NEEDS["memory.forget"].scope or ADMIN,
        ),
    )


async def remember(service: MemorySearchService, call: CommandCall) -> str:
    """Appends the text to the log of the day."""
    if not call.arguments:
        raise CommandError("/remember needs a text: `/remember The dentist is in Mill Road.`")
    try:
        noted = await service.write(
            call.key.agent, call.arguments, None, Origin.OWNER, str(call.key)
        )
    except SkerryError as error:
        raise CommandError(str(error)) from error
    return (
        f"Noted in `{noted.path}`, line {noted.start_line}."
        f" To remove it: `skerry memory undo {noted.id}`"
    )


async def forget(service: MemorySearchService, call: CommandCall) -> str:
    """Erases the sentences with the words, and returns a summary."""
    if not call.arguments:
        raise CommandError(
            "/forget needs words: `/forget Mill Road` erases every sentence with them."
        )
    try:
        report, _ = await service.forget(call.key.agent, call.arguments)
    except SkerryError as error:
        raise CommandError(str(error)) from error
    return summary(report)


def summary(report: Forgotten) -> str:
    """Summarises the erasure, for a chat (pure)."""
    parts = [
        f"{count} {single if count == 1 else plural}"
        for count, single, plural in (
            (len(report.lines), "statement in files", "statements in files"),
            (report.messages, "message", "messages"),
            (report.summaries, "summary", "summaries"),
            (report.replies, "reply", "replies"),
            (report.records, "record of a job or a sender", "records of jobs and senders"),
            (report.media, "copied file", "copied files"),
        )
        if count
    ]
    text = f"Forgotten: {', '.join(parts)}." if parts else "No text had these words."
    if report.left:
        text += f" It may still be in {', '.join(path for path, _ in report.left)}."
    if report.backups:
        names = ", ".join(backup.name for backup in report.backups)
        text += f" Backups that still contain it: {names}."
    return text
