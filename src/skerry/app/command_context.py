"""The commands on what a conversation holds: `/recall`."""

from skerry.commands.table import Command, CommandCall, CommandError
from skerry.store import Store
from skerry.store.search import Question, search
from skerry.tools.session_search import told


def context_commands(store: Store) -> list[Command]:
    """Return `/recall`."""

    async def recall(call: CommandCall) -> str:
        if not call.arguments:
            raise CommandError("Say what to look for: /recall the blue boat")
        found = await search(store, Question(call.key, call.arguments, others=call.is_owner))
        return told(found)

    return [
        Command(
            "recall",
            "finds what was said before, however long ago",
            recall,
            accepts_arguments=True,
            owner_only=False,
        )
    ]
