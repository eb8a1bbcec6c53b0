"""Objects of the Discord fake, in the format of its HTTP API and gateway, and their checks."""

import re
from collections.abc import Mapping
from typing import Any, Final

TOKEN: Final = "fake.discord.token"  # noqa: S105 - of no bot
BOT: Final = "9001"
APPLICATION: Final = "9002"
GUILD: Final = "500"
ROOM: Final = "100"
"""A channel of the server."""
THREAD: Final = "150"
"""A thread that began in it."""
_EPOCH_MS: Final = 1_420_070_400_000
_ANY_MESSAGE: Final = frozenset(
    {"content", "allowed_mentions", "components", "flags", "attachments", "embeds", "tts"}
)
_NEW_MESSAGE: Final = _ANY_MESSAGE | {
    "enforce_nonce",
    "message_reference",
    "nonce",
    "poll",
}


def snowflake(count: int) -> str:
    """Returns the id of an object made `count` milliseconds after a moment in 2023."""
    return str(1_700_000_000_000 - _EPOCH_MS + count << 22)


def person(number: str, name: str, *, bot: bool = False) -> dict[str, Any]:
    """Returns a person or a bot."""
    names = {
        "username": name if bot else f"user{number}",
        "global_name": name,
        "discriminator": "0",
    }
    return {"id": number, **names, "avatar": None, "bot": bot, "public_flags": 0}


def member(user: Mapping[str, Any] | None, roles: tuple[str, ...]) -> dict[str, Any]:
    """Returns a person on the server."""
    about = {"nick": None, "roles": list(roles), "joined_at": "2023-01-01T00:00:00+00:00"}
    flags = {"deaf": False, "mute": False, "flags": 0, "pending": False, "permissions": "0"}
    return {**about, **flags, **({"user": dict(user)} if user else {})}


def channel(number: str, people: Mapping[str, str]) -> dict[str, Any]:
    """Returns a channel: of the server, a thread, or the direct chat of a person."""
    room = {"id": ROOM, "type": 0, "guild_id": GUILD, "name": "harbour", "position": 0}
    if number == ROOM:
        return {**room, "permission_overwrites": [], "nsfw": False, "parent_id": None}
    if number == THREAD:
        ended = {"archived": False, "locked": False, "auto_archive_duration": 60}
        times = {"archive_timestamp": "2023-01-01T00:00:00+00:00"}
        counts = {"message_count": 0, "member_count": 1, "owner_id": BOT}
        about = {"id": THREAD, "type": 11, "guild_id": GUILD, "name": "a boat", "parent_id": ROOM}
        return {**about, **counts, "thread_metadata": {**ended, **times}}
    owner = number.removesuffix("00")
    recipient = person(owner, people.get(owner, "Nobody"))
    return {"id": number, "type": 1, "last_message_id": None, "recipients": [recipient]}


def guild() -> dict[str, Any]:
    """Returns the server, as in the event for a new member."""
    default_role = {"id": GUILD, "name": "@everyone", "color": 0, "hoist": False, "position": 0}
    role = {**default_role, "permissions": "0", "managed": False, "mentionable": False, "flags": 0}
    names = ("emojis", "features", "stickers", "voice_states", "presences", "stage_instances")
    lists: dict[str, list[Any]] = {name: [] for name in names}
    counts = {"member_count": 2, "verification_level": 0, "premium_tier": 0, "nsfw_level": 0}
    return {
        **lists,
        **counts,
        "id": GUILD,
        "name": "Port",
        "owner_id": "7",
        "roles": [role],
        "channels": [channel(ROOM, {})],
        "threads": [channel(THREAD, {})],
        "members": [member(person(BOT, "house", bot=True), ())],
        "default_message_notifications": 0,
        "explicit_content_filter": 0,
        "mfa_level": 0,
        "system_channel_flags": 0,
        "preferred_locale": "en-US",
        "unavailable": False,
    }


def message(
    number: str, channel_id: str, author: Mapping[str, Any], content: str
) -> dict[str, Any]:
    """Returns a message of text only."""
    names = ("attachments", "components", "embeds", "mention_roles", "mentions")
    lists: dict[str, list[Any]] = {name: [] for name in names}
    flags = {"flags": 0, "mention_everyone": False, "pinned": False, "tts": False, "type": 0}
    times = {"timestamp": "2023-11-14T22:13:20+00:00", "edited_timestamp": None}
    about = {"id": number, "channel_id": channel_id, "author": dict(author), "content": content}
    return {**lists, **flags, **times, **about}


def faults(method: str, body: Mapping[str, Any], *, is_new: bool, has_file: bool) -> list[str]:
    """Returns the reasons why Discord would refuse the body of a message, or why it is unsafe."""
    fields = _NEW_MESSAGE if is_new else _ANY_MESSAGE
    reasons = [f"{method}: {name} is unknown" for name in body.keys() - fields]
    content = body.get("content", "")
    if not isinstance(content, str) or len(content) > 2000:  # noqa: PLR2004 - Discord's limit
        reasons.append("content: Must be 2000 or fewer in length.")
    if is_new and not (content.strip() or has_file or "poll" in body):
        reasons.append("Cannot send an empty message")
    if is_new and (len(str(body.get("nonce", ""))) > 25 or not body.get("enforce_nonce")):  # noqa: PLR2004 - as above
        reasons.append("nonce: it is too long or not enforced")
    allowed = body.get("allowed_mentions", {})
    if ("content" in body and not allowed) or {"everyone", "roles"} & set(allowed.get("parse", ())):
        reasons.append("allowed_mentions: all members could be notified")
    reasons += _button_faults(body.get("components", []))
    return reasons + _poll_faults(body.get("poll"))


def _button_faults(rows: list[Any]) -> list[str]:
    buttons = [button for row in rows for button in row["components"]]
    fits = all(
        button["type"] == 2  # noqa: PLR2004 - a button
        and 0 < len(button["label"]) <= 80  # noqa: PLR2004 - Discord's limits
        and 0 < len(button["custom_id"]) <= 100  # noqa: PLR2004 - as above
        for button in buttons
    )
    sizes = len(rows) <= 5 and all(0 < len(row["components"]) <= 5 for row in rows)  # noqa: PLR2004 - as above
    names = {button["custom_id"] for button in buttons}
    return [] if fits and sizes and len(names) == len(buttons) else ["components: Invalid"]


def _poll_faults(poll: Mapping[str, Any] | None) -> list[str]:
    if poll is None:
        return []
    answers = [answer["poll_media"]["text"] for answer in poll["answers"]]
    fits = 0 < len(poll["question"]["text"]) <= 300 and 0 < len(answers) <= 10  # noqa: PLR2004 - as above
    hours = 1 <= poll["duration"] <= 768  # noqa: PLR2004 - as above
    short = all(len(answer) <= 55 for answer in answers)  # noqa: PLR2004 - as above
    return [] if fits and hours and short else ["poll: Invalid"]


def displayed(content: str) -> str:
    """Returns a text as people see it, without escaping backslashes."""
    return re.sub(r"\\([^\w\s])", r"\1", content)
