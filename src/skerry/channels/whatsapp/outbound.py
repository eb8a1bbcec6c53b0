"""Bodies of messages for the Cloud API."""

from typing import Any, Final

from skerry.channels.whatsapp.markup import MARKUP
from skerry.sdk.channels import AttachmentKind, Button, OutboundMedia, OutboundPart, ReplyTo

MAX_TEXT: Final = 4000
"""Code units of a text: WhatsApp takes 4096 characters; rule channels-whatsapp-chunk-4000."""
MAX_CAPTION: Final = 1024
_MAX_BODY: Final = 1024
"""Characters of a text that has buttons."""
_MAX_BUTTONS: Final = 3
_MAX_ROWS: Final = 10
_MAX_TITLE: Final = 20
_MAX_ROW_TITLE: Final = 24
_MAX_COMMAND: Final = 200
_MAX_TRACKER: Final = 512
_SENT_AS: Final = {
    AttachmentKind.IMAGE: ("image", frozenset({"image/jpeg", "image/png"}), 5_000_000),
    AttachmentKind.AUDIO: (
        "audio",
        frozenset({"audio/aac", "audio/amr", "audio/mp4", "audio/mpeg", "audio/ogg"}),
        16_000_000,
    ),
    AttachmentKind.VIDEO: ("video", frozenset({"video/mp4", "video/3gpp"}), 16_000_000),
}
"""Kind in WhatsApp, the types of file that it takes, and the most bytes of one."""


def addressed(part: OutboundPart) -> dict[str, Any]:
    """Returns the fields that every message has."""
    fields = recipient(part.to)
    if quote := plain_id(part.to.quote or ""):
        fields["context"] = {"message_id": quote}
    if len(part.nonce) <= _MAX_TRACKER:
        fields["biz_opaque_callback_data"] = part.nonce
    return fields


def recipient(to: ReplyTo) -> dict[str, Any]:
    """Returns the recipient: a number, a person who hides it, or a group."""
    name = to.peer.id
    if to.peer.kind.value == "group":
        return {"recipient_type": "group", "to": name}
    key = "to" if name.startswith("+") else "recipient"
    return {"recipient_type": "individual", key: name.removeprefix("+")}


def plain_id(message_id: str) -> str:
    """Returns the id at the platform, of an edited message the original's; empty for others."""
    number = message_id.partition(":")[0]
    return number if number.startswith("wamid.") else ""


def worded(part: OutboundPart) -> dict[str, Any]:
    """Returns a text, with buttons where they fit; the text alone says what they do."""
    text = shaped(part.text, MAX_TEXT)
    buttons = [button for row in part.additions.buttons for button in row]
    if (
        buttons
        and len(buttons) <= _MAX_ROWS
        and len(text) <= _MAX_BODY
        and all(len(button.command) <= _MAX_COMMAND for button in buttons)
    ):
        return {
            "type": "interactive",
            "interactive": {"body": {"text": text}, **_choices(buttons)},
        }
    return {"type": "text", "text": {"body": text, "preview_url": False}}


def shaped(text: str, limit: int) -> str:
    """Returns a text in WhatsApp's markup; unchanged when the marks would make it too long."""
    rendered = MARKUP.render(text)
    return rendered if rendered and len(rendered.encode("utf-16-le")) // 2 <= limit else text


def _choices(buttons: list[Button]) -> dict[str, Any]:
    if len(buttons) <= _MAX_BUTTONS:
        replies = [
            {"type": "reply", "reply": {"id": button.command, "title": button.label[:_MAX_TITLE]}}
            for button in buttons
        ]
        return {"type": "button", "action": {"buttons": replies}}
    rows = [{"id": button.command, "title": button.label[:_MAX_ROW_TITLE]} for button in buttons]
    return {
        "type": "list",
        "action": {"button": "Choose", "sections": [{"title": "Choices", "rows": rows}]},
    }


def sent_as(media: OutboundMedia, size: int, caption: str) -> str:
    """Returns the kind under which a file is sent: a file that WhatsApp cannot play is a document.

    So is audio with a text, since WhatsApp shows no caption below audio.
    """
    kind, mimes, max_bytes = _SENT_AS.get(media.kind, ("document", frozenset[str](), 0))
    plays = media.mime.partition(";")[0].strip() in mimes and size <= max_bytes
    return kind if plays and not (kind == "audio" and caption) else "document"


def file(kind: str, media_id: str, name: str, caption: str) -> dict[str, Any]:
    """Returns a file that was uploaded."""
    content: dict[str, Any] = {"id": media_id}
    if caption:
        content["caption"] = shaped(caption, MAX_CAPTION)
    if kind == "document":
        content["filename"] = name
    return {"type": kind, kind: content}
