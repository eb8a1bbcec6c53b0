"""Section `session`: sharing of conversations, their resets, and their retention."""

import re
from enum import StrEnum
from typing import Annotated, Final, Literal

from pydantic import AfterValidator, BeforeValidator, Field, PlainSerializer

from skerry.config.base import Section

_DURATION: Final = re.compile(r"(\d+(?:\.\d+)?)\s*(ms|s|m|h|d|w)?")
_SIZE: Final = re.compile(r"(\d+(?:\.\d+)?)\s*(b|kb|mb|gb|tb)?")
_MS: Final = {"ms": 1, "s": 1000, "m": 60_000, "h": 3_600_000, "d": 86_400_000, "w": 604_800_000}
_BYTES: Final = {"b": 1, "kb": 1 << 10, "mb": 1 << 20, "gb": 1 << 30, "tb": 1 << 40}
_DAY: Final = _MS["d"]
_MAX_VALUE: Final = 1e15
"""Milliseconds or bytes: thirty thousand years. A larger number may not fit the database."""


class Scope(StrEnum):
    """Separation of a platform's conversations by sender."""

    PER_SENDER = "per-sender"
    GLOBAL = "global"
    """All senders in all chats share one conversation."""


class DmScope(StrEnum):
    """Sharing of a conversation between direct chats."""

    MAIN = "main"
    PER_PEER = "per-peer"
    PER_CHANNEL_PEER = "per-channel-peer"
    PER_ACCOUNT_CHANNEL_PEER = "per-account-channel-peer"


class ResetMode(StrEnum):
    """Event that resets a conversation automatically."""

    NONE = "none"
    DAILY = "daily"
    IDLE = "idle"


def duration(value: object) -> object:
    """Returns milliseconds of a text such as `30d`; a bare number is days."""
    match = _DURATION.fullmatch(str(value).strip().lower())
    if match is None:
        raise ValueError("it must be a number with ms, s, m, h, d or w, such as 30d")
    return round(min(float(match[1]) * _MS[match[2] or "d"], _MAX_VALUE))


def span(milliseconds: int) -> str:
    """Returns the exact text of a duration in the largest possible unit."""
    fits = [unit for unit, size in _MS.items() if unit != "w" and milliseconds % size == 0]
    return f"{milliseconds // _MS[fits[-1]]}{fits[-1]}"


SPAN: Final = PlainSerializer(span, return_type=str, when_used="json")
"""Serialises a duration with its unit, because a bare number would be read as days."""


def size(value: object) -> object:
    """Returns bytes of a text such as `500mb`; a bare number is bytes."""
    match = _SIZE.fullmatch(str(value).strip().lower())
    if match is None:
        raise ValueError("it must be a number with b, kb, mb, gb or tb, such as 500mb")
    return round(min(float(match[1]) * _BYTES[match[2] or "b"], _MAX_VALUE))


def person(text: str) -> str:
    """Returns the id of a person on a platform, `channel:id`.

    Raises:
        ValueError: the channel is missing; an id may be of two persons on two platforms.
    """
    channel, colon, name = text.strip().partition(":")
    if not (colon and channel.strip() and name.strip()) or "*" in {channel.strip(), name.strip()}:
        raise ValueError("write it with its channel, such as telegram:123456789")
    return f"{channel.strip()}:{name.strip()}"


Person = Annotated[str, Field(max_length=256), AfterValidator(person)]


class ResetConfig(Section):
    """Time at which a conversation is reset; if there are two limits, the earlier one applies."""

    mode: ResetMode | None = None
    """`daily`, `idle`, or `none`."""
    at_hour: int | None = Field(default=None, ge=0, le=23)
    """Hour of the daily reset, in the time zone of the gateway's machine; 4 when unset."""
    idle_minutes: int | None = Field(default=None, ge=1, le=5_256_000)
    """Minutes without a message after which a conversation is reset. When unset, 60 in mode `idle`
    and no limit in mode `daily`."""


class SendMatch(Section):
    """Conditions on a conversation; all conditions that are set must match."""

    channel: str | None = Field(default=None, min_length=1, max_length=64)
    """The platform."""
    chat_type: Literal["direct", "dm", "group", "channel"] | None = None
    """Kind of chat."""
    key_prefix: str | None = Field(default=None, min_length=1, max_length=512)
    """Prefix of the session key, with or without `agent:<id>:`."""
    raw_key_prefix: str | None = Field(default=None, min_length=1, max_length=512)
    """Prefix of the whole session key."""


class SendRule(Section):
    """One rule of the send policy."""

    action: Literal["allow", "deny"]
    """Sends or drops the replies."""
    match: SendMatch = SendMatch.model_construct()
    """Conditions on the conversation; an empty match means all."""


class SendPolicy(Section):
    """Rules that decide whether the replies of a conversation are sent to the chat platform."""

    default: Literal["allow", "deny"] = "allow"
    """Action if no rule matches."""
    rules: tuple[SendRule, ...] = Field(default=(), max_length=1000)
    """Rules of the policy. If any matching rule denies, the action is `deny`; else a matching rule
    allows."""


class MaintenanceConfig(Section):
    """Limits on the number, age and size of stored conversations."""

    mode: Literal["warn", "enforce"] = "warn"
    """`warn` only reports what exceeds the limits; `enforce` archives or removes it once a day."""
    prune_after: Annotated[int, BeforeValidator(duration), SPAN, Field(ge=_DAY)] = 30 * _DAY
    """Time such as `30d`, at least one day, after which unused conversations are archived, and
    archived ones are removed."""
    max_entries: int = Field(default=500, ge=1, le=1_000_000)
    """Maximum conversations of an agent; above it, the longest unused ones are archived."""
    max_disk_bytes: Annotated[int, BeforeValidator(size), Field(ge=1 << 20)] | None = None
    """Maximum size of transcripts, such as `500mb`; above it, the oldest archived ones are
    removed."""


class Exchanges(Section):
    """Exchanges between two conversations of agents."""

    max_ping_pong_turns: int = Field(default=5, ge=0, le=5)
    """Further turns of the two conversations after the first answer to `sessions_send`; 0 is
    none."""


class SessionConfig(Section):
    """Keys, resets and retention of conversations."""

    scope: Scope = Scope.PER_SENDER
    """`global` uses one conversation for all chats of all platforms."""
    dm_scope: DmScope | None = None
    """Sharing of direct chats. When unset, the owner's chats share `main`, and every other sender
    has one conversation per channel; a value applies to all senders."""
    identity_links: dict[str, tuple[Person, ...]] = Field(default_factory=dict, max_length=1000)
    """Ids of a person on platforms, as `channel:id`, by the name of the person."""
    main_key: str | None = None
    """Ignored: the key is always `main`."""
    store: str | None = None
    """Ignored: the files are always below the state directory."""
    reset: ResetConfig | None = None
    """Reset of conversations; daily at 4 when unset."""
    reset_by_type: dict[Literal["direct", "dm", "group", "thread"], ResetConfig] = Field(
        default_factory=dict
    )
    """Different resets for direct chats, groups and threads."""
    reset_by_channel: dict[str, ResetConfig] = Field(default_factory=dict, max_length=100)
    """Reset for one platform; it overrides all other settings."""
    idle_minutes: int | None = Field(default=None, ge=1, le=5_256_000)
    """Older form of `reset: {mode: "idle", idleMinutes}`; used if there is no `reset`."""
    reset_triggers: tuple[Annotated[str, Field(min_length=1, max_length=64)], ...] = Field(
        default=("/new", "/reset"), max_length=20
    )
    """Messages that reset a conversation, alone or at the beginning of a message."""
    send_policy: SendPolicy = SendPolicy.model_construct()
    """Rules that decide whether the replies of a conversation are sent to the chat platform."""
    agent_to_agent: Exchanges = Exchanges.model_construct()
    """Turns of two conversations after one has sent a message to the other."""
    maintenance: MaintenanceConfig = MaintenanceConfig.model_construct()
    """Limits on the number, age and size of stored conversations."""
