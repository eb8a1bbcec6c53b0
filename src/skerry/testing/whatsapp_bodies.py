"""Checks bodies of messages by the rules of the Cloud API."""

from typing import Any, Final

_HEAD: Final = {
    *("messaging_product", "recipient_type", "to", "recipient", "type", "context"),
    "biz_opaque_callback_data",
}
_MEDIA: Final = {
    "image": {"id", "caption"},
    "video": {"id", "caption"},
    "audio": {"id"},
    "document": {"id", "caption", "filename"},
}
_LIMITS: Final = {
    "text": 4096,
    "caption": 1024,
    "body": 1024,
    "tracker": 512,
    "buttons": 3,
    "rows": 10,
    "title": 20,
    "id": 256,
    "row title": 24,
    "row id": 200,
}


def fault_of(body: dict[str, Any]) -> str:
    """Returns a text about the first mistake in a body; empty for a valid body."""
    if body.get("messaging_product") != "whatsapp":
        return "messaging_product is not whatsapp"
    if "status" in body:
        return _receipt(body)
    kind = body.get("type", "")
    content = body.get(kind)
    if not isinstance(content, dict) or body.keys() - _HEAD - {kind}:
        return f"a message of the type {kind!r} has other fields"
    return _head(body) or _content(kind, content)


def _receipt(body: dict[str, Any]) -> str:
    fields = {"messaging_product", "status", "message_id", "typing_indicator"}
    is_valid = body["status"] == "read" and str(body.get("message_id", "")).startswith("wamid.")
    typing = body.get("typing_indicator", {"type": "text"})
    return (
        "" if is_valid and body.keys() <= fields and typing == {"type": "text"} else "a bad receipt"
    )


def _head(body: dict[str, Any]) -> str:
    if ("to" in body) == ("recipient" in body):
        return "to or recipient"
    to, kind = body.get("to", ""), body.get("recipient_type")
    if kind not in {"individual", "group"}:
        return "recipient_type"
    if kind == "individual" and "to" in body and not to.isdecimal():
        return f"to is no number: {to}"
    if not body.get("context", {"message_id": "wamid."})["message_id"].startswith("wamid."):
        return "context"
    return "" if len(body.get("biz_opaque_callback_data", "")) <= _LIMITS["tracker"] else "tracker"


def _content(kind: str, content: dict[str, Any]) -> str:
    match kind:
        case "text":
            is_valid = _fits(content.get("body"), "text") and content.keys() <= {
                "body",
                "preview_url",
            }
        case "reaction":
            is_valid = content.keys() == {"message_id", "emoji"}
        case "interactive":
            is_valid = _fits(content.get("body", {}).get("text"), "body") and _choices(content)
        case "image" | "video" | "audio" | "document":
            is_valid = content.keys() <= _MEDIA[kind] and str(content.get("id", "")).isdecimal()
            is_valid = is_valid and _fits(content.get("caption", "-"), "caption")
        case _:
            is_valid = False
    return "" if is_valid else f"a bad {kind}: {content}"


def _fits(text: Any, field: str) -> bool:
    return isinstance(text, str) and 0 < len(text) <= _LIMITS[field]


def _choices(content: dict[str, Any]) -> bool:
    action = content.get("action", {})
    if content.get("type") == "button":
        replies = [
            button["reply"] for button in action.get("buttons", ()) if button["type"] == "reply"
        ]
        titles = {reply["title"] for reply in replies}
        return (
            0 < len(replies) <= _LIMITS["buttons"]
            and len(titles) == len(replies)
            and all(
                _fits(reply["title"], "title") and _fits(reply["id"], "id") for reply in replies
            )
        )
    rows = [row for section in action.get("sections", ()) for row in section["rows"]]
    return (
        content.get("type") == "list"
        and _fits(action["button"], "title")
        and 0 < len(rows) <= _LIMITS["rows"]
        and all(_fits(row["title"], "row title") and _fits(row["id"], "row id") for row in rows)
    )
