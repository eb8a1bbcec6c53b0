"""Report on a conversation's prompt."""

from msgspec import Struct, field


class PromptPart(Struct, frozen=True):
    """A part of what is sent with each message."""

    name: str
    chars: int
    text: str = ""


class PromptFile(Struct, frozen=True):
    """A file of the workspace: its characters, and those that the prompt has of it."""

    name: str
    raw: int
    chars: int


class PromptReport(Struct, frozen=True):
    """Prompt with which the next message of a conversation would be sent."""

    session_key: str
    session_id: str
    """Empty where the conversation has not begun."""
    model: str
    system: str
    parts: list[PromptPart]
    """Parts of the system prompt, in order, without their texts; then the descriptions of the
    tools."""
    files: list[PromptFile]
    entries: int
    """Number of entries in the transcript."""
    conversation_tokens: int
    """Tokens of the whole context at the last call of the model; 0 if unknown."""
    notes: list[str] = field(default_factory=list)
    """Parts that the report leaves out."""
