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
    """Returns the id of entry `seq` of a session: 8 hex digits, distinct for 2**32 entries.

    Raises:
        TypeError: If `seq` is not a number, as in a damaged row. Masking it before the
            multiplication refuses text before Python repeats it to 2.6 GB.
    """
    return f"{(seq & _ID_MASK) * _ID_STEP & _ID_MASK:08x}"


def entry_seq(name: str) -> int:
    """Returns the number of the entry with this id; inverse of `entry_id`."""
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
    """`deny` does not send replies to the chat platform; they are only in the transcript."""
    queue_mode: QueueMode | None = None
    queue_debounce_ms: int | None = None
    queue_cap: int | None = None
    queue_drop: DropPolicy | None = None
    pinned: bool = False
    unread: bool = False
    taint_cleared: int | None = None
    """Number of the last entry up to which the owner cleared the taint."""
    spawned_by: str | None = None
    """Key of the conversation that started this one as a sub-agent."""

    def after_reset(self) -> "SessionSettings":
        """Returns the settings of the conversation's next session: all but the model.

        Source: openclaw-behaviour 2.3.
        """
        return msgspec.structs.replace(self, model=None, unread=False, taint_cleared=None)

    def over(self, settings: "SessionSettings") -> "SessionSettings":
        """Returns `settings` with the values that are set here."""
        fields = ((name, getattr(self, name)) for name in self.__struct_fields__)
        is_set = {name: value for name, value in fields if value is not None and value is not False}
        return msgspec.structs.replace(settings, **is_set)

    def with_model(self, model: str) -> "SessionSettings":
        """Returns the same settings with another model."""
        return msgspec.structs.replace(self, model=model)

    def after_expiry(self) -> "SessionSettings":
        """Returns the settings that are kept after an automatic reset: none of the levels.

        The pin and the target of replies belong to the conversation, so they are kept.
        Source: openclaw-behaviour 2.3.
        """
        return SessionSettings(
            send_policy=self.send_policy, pinned=self.pinned, spawned_by=self.spawned_by
        )

    def set_values(self) -> dict[str, Any]:
        """Returns the settings that are set, by the keys of the session map."""
        settings: dict[str, Any] = msgspec.to_builtins(self)
        settings.pop("taintCleared", None)  # a session map that is imported must not clear a taint
        if model := settings.pop("model", None):
            settings["providerOverride"], _, settings["modelOverride"] = model.partition("/")
        return settings


class Archived(StrEnum):
    """Reason why a session is not the present one of its conversation any more."""

    RESET = "reset"
    DELETED = "deleted"


class SessionEntry(Struct, frozen=True):
    """State of a conversation; `session_id` is its present session."""

    key: str
    session_id: SessionId
    agent_id: AgentId
    chat_type: str
    created_at: int
    updated_at: int
    tail: int
    """Number of the last transcript entry; 0 without one."""
    input_tokens: int = 0
    output_tokens: int = 0
    total_tokens: int = 0
    aborted_last_run: bool = False
    provider: str = ""
    model: str = ""
    label: str = ""
    user_at: int = 0
    """Time of a person's last message to a model; 0 without one."""
    archived: Archived | None = None
    """None while it is the present session of its key."""
    archived_at: int = 0
    settings: SessionSettings = field(default_factory=SessionSettings)
    compactions: int = 0
    """Number of compactions."""
    flushed: int = -1
    """Number of compactions at the last memory flush; -1 before the first."""
    flushed_at: int = 0


class TranscriptEntry(Struct, frozen=True):
    """One message of a transcript. `seq` is its number from 1; `parent` is 0 without one."""

    seq: int
    parent: int
    at: int
    run_id: str
    message: Message
