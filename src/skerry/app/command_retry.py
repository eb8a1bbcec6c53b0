"""`/retry`: the last message again, where its run was interrupted or failed."""

from skerry.commands.table import Command, CommandCall, CommandError, CommandTable
from skerry.ports.dispatch import Dispatcher
from skerry.sessions.retry import NOTHING, to_retry
from skerry.store import Store


class Retrying:
    """The command, and what it needs, which is there later than the table of commands."""

    def __init__(self, table: CommandTable) -> None:
        self._table = table
        self._at_work: tuple[Store, Dispatcher] | None = None

    def bind(self, store: Store, dispatcher: Dispatcher) -> None:
        """Give it the store and what takes runs."""
        self._at_work = (store, dispatcher)

    def command(self) -> Command:
        """Return the command for the table."""
        text = "runs your last message again, where it was interrupted or failed"
        return Command("retry", text, self._run, owner_only=False)

    async def _run(self, call: CommandCall) -> str:
        if self._at_work is None:
            raise CommandError("The gateway is still starting; try again in a moment.")
        store, dispatcher = self._at_work
        request = await store.read(
            lambda reader: to_retry(
                reader, call.key, self._is_command, call.run_id, by_owner=call.is_owner
            )
        )
        if request is None:
            return NOTHING
        await dispatcher.submit(request)
        return "🔁 Running your last message again."

    def _is_command(self, text: str) -> bool:
        return self._table.match(text) is not None
