"""Labels of conversations, which are unique within an agent."""

from typing import Annotated

from pydantic import Field

from skerry.gateway.method import RefusedError
from skerry.model.ids import AgentId
from skerry.store import Reader, session_listing
from skerry.store.session_listing import SessionFilter

Label = Annotated[str, Field(max_length=512, pattern=r"^[^\x00-\x1f\x7f]*$")]


def check_free(reader: Reader, agent: AgentId, label: str, key: str) -> None:
    """Checks that no conversation of the agent other than `key` has this label.

    Raises:
        RefusedError: another conversation has it.
    """
    conversations = session_listing.recent(reader, SessionFilter(agent, label=label), limit=2)
    if any(conversation.key != key for conversation in conversations):
        raise RefusedError(
            f"label already in use: {label}",
            "Choose another name, or rename the other conversation first.",
        )
