"""The commands `/recall` and `/compact`, for the content of conversations."""

from skerry.commands.table import Argument, Command, CommandCall, CommandError
from skerry.model.errors import ModelError
from skerry.store import Store
from skerry.store.transcript_search import TranscriptQuery, search
from skerry.tools.session_search import as_text


def context_commands(store: Store) -> list[Command]:
    """Returns `/recall` and `/compact`."""

    async def recall(call: CommandCall) -> str:
        if not call.arguments:
            raise CommandError("Missing search words. Example: /recall the blue boat")
        hits = await search(
            store, TranscriptQuery(call.key, call.arguments, owner_conversations=call.is_owner)
        )
        return as_text(hits)

    async def compact(call: CommandCall) -> str:
        if call.compact is None:
            raise CommandError("This chat has no conversation to summarise.")
        try:
            return await call.compact(call.arguments)
        except ModelError as error:
            raise CommandError(f"{error} {error.remedy}".rstrip()) from error

    return [
        Command(
            "recall",
            "searches earlier messages, however old",
            recall,
            accepts_arguments=True,
            owner_only=False,
            arguments=(Argument("words", "words to search"),),
            category="session",
        ),
        Command(
            "compact",
            "summarises the conversation so far; you may add what to keep",
            compact,
            accepts_arguments=True,
            listed=True,
            arguments=(Argument("instructions", "what the summary must keep"),),
            category="session",
        ),
    ]
