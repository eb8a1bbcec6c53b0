"""Report on a conversation's prompt."""

from msgspec import Struct, field


class PromptPart(Struct, frozen=True):
    """A part of the prompt that is sent with each message."""

    name: str
    chars: int
    text: str = ""
    """The text; empty in a report without texts."""


class PromptFile(Struct, frozen=True):
    """A file of the workspace in the prompt."""

    name: str
    raw: int
    """Characters of the file."""
    chars: int
    """Characters of the file that are in the prompt."""


class PromptReport(Struct, frozen=True):
    """The prompt that would be sent with the next message of a conversation."""

    session_key: str
    session_id: str
    """Empty if the conversation has not begun."""
    model: str
    system: str
    parts: list[PromptPart]
    """Parts of the system prompt in order, then the descriptions of the tools; without texts."""
    files: list[PromptFile]
    entries: int
    """Number of entries in the transcript."""
    conversation_tokens: int
    """Tokens of the whole context in the last model call; 0 if unknown."""
    notes: list[str] = field(default_factory=list)
    """Parts that the report leaves out."""
