"""Sessions and the entries of their transcripts."""

from enum import StrEnum
from typing import Any

import msgspec
from msgspec import Struct, field

from skerry.model.ids import AgentId, SessionId
from skerry.model.message import Message
from skerry.model.queue import DropPolicy, QueueMode
from skerry.model.thinking import ThinkingLevel

_ID_MASK = 0xFFFF_FFFF
_ID_STEP = 0x9E37_79B1  # odd, so multiplying is a bijection of 32-bit numbers: ids never collide
_ID_BACK = pow(_ID_STEP, -1, _ID_MASK + 1)


def entry_id(seq: int) -> str:
    """Returns the 8 hex digits that name entry `seq` of a session; distinct for 2**32 entries."""
    return f"{seq * _ID_STEP & _ID_MASK:08x}"


def entry_seq(name: str) -> int:
    """Returns the number of the entry that `entry_id` named so."""
    return int(name, 16) * _ID_BACK & _ID_MASK


class SessionSettings(msgspec.Struct, frozen=True, omit_defaults=True, rename="camel"):
    """Settings of one conversation; None takes the value of the configuration."""

    model: str | None = None
    """`provider/model`; the next run uses it."""
    thinking_level: ThinkingLevel | None = None
    verbose_level: str | None = None
    reasoning_level: str | None = None
    response_usage: str | None = None
    send_policy: str | None = None
    """`deny` keeps replies from the chat platform; the transcript has them."""
    queue_mode: QueueMode | None = None
    queue_debounce_ms: int | None = None
    queue_cap: int | None = None
    queue_drop: DropPolicy | None = None
    pinned: bool = False
    unread: bool = False
    taint_cleared: int | None = None
    """Number of the last entry whose words of others the owner cleared."""
    spawned_by: str | None = None
    """Key of the conversation that started this one as a sub-agent."""

    def after_reset(self) -> "SessionSettings":
        """Returns the settings that the conversation's next session keeps: all but the model.

        Source: openclaw-behaviour 2.3.
        """
        return msgspec.structs.replace(self, model=None, unread=False, taint_cleared=None)

    def over(self, settings: "SessionSettings") -> "SessionSettings":
        """Returns `settings` with what is set here in its place."""
        fields = ((name, getattr(self, name)) for name in self.__struct_fields__)
        is_set = {name: value for name, value in fields if value is not None and value is not False}
        return msgspec.structs.replace(settings, **is_set)

    def with_model(self, model: str) -> "SessionSettings":
        """Returns the same with another model."""
        return msgspec.structs.replace(self, model=model)

    def after_expiry(self) -> "SessionSettings":
        """Returns the settings that a session keeps after an automatic reset: none of the levels.

        Whether it is pinned, and where its replies go, belongs to the conversation.
        Source: openclaw-behaviour 2.3.
        """
        return SessionSettings(
            send_policy=self.send_policy, pinned=self.pinned, spawned_by=self.spawned_by
        )

    def set_values(self) -> dict[str, Any]:
        """Returns the settings that are set, in the words of the seeds' session map."""
        settings: dict[str, Any] = msgspec.to_builtins(self)
        settings.pop("taintCleared", None)  # a map of sessions that is read back clears nothing
        if model := settings.pop("model", None):
            settings["providerOverride"], _, settings["modelOverride"] = model.partition("/")
        return settings


class Archived(StrEnum):
    """Reason why a session is no longer the present one of its conversation."""

    RESET = "reset"
    DELETED = "deleted"


class SessionEntry(Struct, frozen=True):
    """State of a conversation; `session_id` is its present incarnation."""

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
    label: str = ""
    user_at: int = 0
    """Time of a person's last message that went to a model; 0 when there is none."""
    archived: Archived | None = None
    """None while it is the present session of its key."""
    archived_at: int = 0
    settings: SessionSettings = field(default_factory=SessionSettings)
    compactions: int = 0
    """Number of compactions."""
    flushed: int = -1
    """Number of compactions at the last flush of notes; -1 when there was none."""
    flushed_at: int = 0


class TranscriptEntry(Struct, frozen=True):
    """One message of a transcript, with its place. `seq` counts from 1, `parent` is 0 for none."""

    seq: int
    parent: int
    at: int
    run_id: str
    message: Message
