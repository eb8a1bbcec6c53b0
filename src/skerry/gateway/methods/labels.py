"""Names of conversations: a label names one conversation of an agent."""

from typing import Annotated

from pydantic import Field

from skerry.gateway.method import RefusedError
from skerry.model.ids import AgentId
from skerry.store import Reader, session_listing
from skerry.store.session_listing import SessionFilter

Label = Annotated[str, Field(max_length=512, pattern=r"^[^\x00-\x1f\x7f]*$")]


def check_free(reader: Reader, agent: AgentId, label: str, key: str) -> None:
    """Refuses a label that another conversation of the agent has than the one with this key.

    Raises:
        RefusedError: it has.
    """
    conversations = session_listing.recent(reader, SessionFilter(agent, label=label), limit=2)
    if any(conversation.key != key for conversation in conversations):
        raise RefusedError(
            f"label already in use: {label}",
            "Choose another name, or rename the other conversation first.",
        )
