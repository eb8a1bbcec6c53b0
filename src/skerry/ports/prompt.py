"""What the gateway tells of a conversation's prompt."""

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
    """What the next message of a conversation would be sent with."""

    session_key: str
    session_id: str
    """Empty where the conversation has not begun."""
    model: str
    system: str
    parts: list[PromptPart]
    """Of the system prompt, in order, without their texts; then the descriptions of the tools."""
    files: list[PromptFile]
    entries: int
    """Of the transcript."""
    conversation_tokens: int
    """Of the whole context at the last call of the model; 0 is not known."""
    notes: list[str] = field(default_factory=list)
    """What is not in the report."""
