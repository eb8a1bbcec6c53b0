"""`/retry`: runs the last message again after an interrupted or failed run."""

from collections.abc import Callable

from skerry.commands.table import Command, CommandCall, CommandTable
from skerry.ports.dispatch import Dispatcher
from skerry.sessions.failed_message import NOTHING_TO_RETRY, as_asked_by, to_retry
from skerry.store import Store


def retry_command(
    table: CommandTable, store: Store, dispatcher: Callable[[], Dispatcher]
) -> Command:
    """Returns `/retry`; `table` identifies messages that are commands, which do not run again."""

    async def retry(call: CommandCall) -> str:
        request = await store.read(
            lambda reader: to_retry(
                reader,
                call.key,
                lambda text: table.match(text) is not None,
                call.run_id,
                by_owner=call.is_owner,
            )
        )
        if request is None:
            return NOTHING_TO_RETRY
        await dispatcher().submit(as_asked_by(request, call.scopes))
        return "🔁 Running your last message again."

    text = "runs your last message again after an interruption or failure"
    return Command("retry", text, retry, owner_only=False)
