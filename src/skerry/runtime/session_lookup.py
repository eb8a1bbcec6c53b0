"""Search of a run in earlier messages."""

from msgspec import Struct

from skerry.lanes.running import ActiveRun
from skerry.model.origin import Origin
from skerry.model.recall import Found
from skerry.store import Store


class Recollection(Struct, frozen=True):
    """Searches for one run. Implements `ports.tool.Recall`."""

    store: Store
    active: ActiveRun

    async def search(self, query: str, *, limit: int, others: bool) -> Found:
        """Returns where words of the query stand, less what this run said itself.

        The owner's other conversations are opened to the owner alone.
        """
        # Imported here: it brings the parts of the memory's search with it.
        from skerry.store.search import Question, search  # noqa: PLC0415

        active = self.active
        question = Question(
            active.request.key,
            query,
            limit=limit,
            others=others and active.request.origin is Origin.OWNER,
            until=(active.session_id, active.entry) if active.entry else None,
        )
        return await search(self.store, question)
