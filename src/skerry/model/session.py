"""Sessions and the entries of their transcripts."""

from dataclasses import dataclass

from skerry.model.ids import AgentId, SessionId
from skerry.model.message import Message

_ID_MASK = 0xFFFF_FFFF
_ID_STEP = 0x9E37_79B1  # odd, so multiplying is a bijection of 32-bit numbers: ids never collide


def entry_id(seq: int) -> str:
    """Return the 8 hex digits that name entry `seq` of a session; distinct for 2**32 entries."""
    return f"{seq * _ID_STEP & _ID_MASK:08x}"


@dataclass(frozen=True, slots=True)
class SessionEntry:
    """What is known of a conversation; `session_id` is its present incarnation."""

    key: str
    session_id: SessionId
    agent_id: AgentId
    chat_type: str
    created_at: int
    updated_at: int
    tail: int
    """Number of the last transcript entry; 0 when there is none."""
    input_tokens: int = 0
    output_tokens: int = 0
    total_tokens: int = 0
    aborted_last_run: bool = False
    provider: str = ""
    model: str = ""


@dataclass(frozen=True, slots=True)
class TranscriptEntry:
    """One message of a transcript, with its place. `seq` counts from 1, `parent` is 0 for none."""

    seq: int
    parent: int
    at: int
    run_id: str
    message: Message
