"""Contents of WhatsApp messages, of every kind, as text and files."""

from typing import Final

from msgspec import Struct

from skerry.sdk.channels import Attachment, AttachmentKind

_MAX_NAME: Final = 256
_MAX_CARDS: Final = 20
UNSUPPORTED: Final = "[A message of a kind that WhatsApp does not pass on to apps.]"


class TextBody(Struct, frozen=True):
    """The text of a message."""

    body: str = ""


class File(Struct, frozen=True):
    """A file, by the id under which it can be fetched."""

    id: str = ""
    mime_type: str = ""
    caption: str = ""
    filename: str = ""
    voice: bool = False


class Location(Struct, frozen=True):
    """A geographic position."""

    latitude: float = 0.0
    longitude: float = 0.0
    name: str | None = None
    address: str | None = None


class _Name(Struct, frozen=True):
    formatted_name: str = ""


class _Phone(Struct, frozen=True):
    phone: str | None = None
    wa_id: str | None = None


class _Mail(Struct, frozen=True):
    email: str | None = None


class Card(Struct, frozen=True):
    """A contact that a person passes on."""

    name: _Name = _Name()
    phones: tuple[_Phone, ...] = ()
    emails: tuple[_Mail, ...] = ()

    @property
    def text(self) -> str:
        """Returns the contact on one line."""
        numbers = [phone.phone or phone.wa_id or "" for phone in self.phones]
        details = [*numbers, *(mail.email or "" for mail in self.emails)]
        details_text = ", ".join(detail for detail in details if detail)
        return f"[Contact: {self.name.formatted_name}{': ' if details_text else ''}{details_text}]"


class Choice(Struct, frozen=True):
    """A button or a row that a person chose."""

    id: str = ""
    title: str = ""


class Interactive(Struct, frozen=True):
    """An answer by a button or a list."""

    button_reply: Choice | None = None
    list_reply: Choice | None = None


class Quick(Struct, frozen=True):
    """A button of a template that a person pressed."""

    text: str = ""


class _Item(Struct, frozen=True):
    product_retailer_id: str = ""
    quantity: float = 0


class Order(Struct, frozen=True):
    """Goods that a person chose from a catalogue."""

    text: str = ""
    product_items: tuple[_Item, ...] = ()


class MessageContent(Struct, frozen=True):
    """Text or file of a message; `type` names the field that has it."""

    type: str = ""
    text: TextBody | None = None
    image: File | None = None
    audio: File | None = None
    video: File | None = None
    document: File | None = None
    sticker: File | None = None
    location: Location | None = None
    contacts: tuple[Card, ...] = ()
    interactive: Interactive | None = None
    button: Quick | None = None
    order: Order | None = None

    @property
    def pressed(self) -> str:
        """Returns the command of a button that was pressed; empty for other contents."""
        if self.type != "interactive" or self.interactive is None:
            return ""
        choice = self.interactive.button_reply or self.interactive.list_reply
        return choice.id if choice else ""

    def words(self) -> str:
        """Returns the text; describes other contents in brackets."""
        file = self._file()
        match self.type:
            case "text":
                text = self.text.body if self.text else ""
            case "interactive":
                text = self.pressed
            case "button":
                text = self.button.text if self.button else ""
            case "location":
                text = _location_text(self.location) if self.location else ""
            case "contacts":
                text = "\n".join(card.text for card in self.contacts[:_MAX_CARDS])
            case "order":
                text = _order(self.order) if self.order else ""
            case "unsupported" | "unknown":
                text = UNSUPPORTED
            case _:
                text = file.caption if file else ""
        return text

    def files(self) -> tuple[Attachment, ...]:
        """Returns the file, if it has one."""
        file = self._file()
        if file is None or not file.id:
            return ()
        kind, mime, name = _KINDS[self.type]
        mime = file.mime_type.partition(";")[0].strip() or mime
        if self.type == "document" and mime.startswith("image/"):
            kind = AttachmentKind.IMAGE
        return (Attachment(kind, file.id, mime, (file.filename or name)[:_MAX_NAME]),)

    def _file(self) -> File | None:
        files = {
            "image": self.image,
            "audio": self.audio,
            "video": self.video,
            "document": self.document,
            "sticker": self.sticker,
        }
        return files.get(self.type)


_KINDS: Final = {
    "image": (AttachmentKind.IMAGE, "image/jpeg", "photo.jpg"),
    "audio": (AttachmentKind.AUDIO, "audio/ogg", "voice.ogg"),
    "video": (AttachmentKind.VIDEO, "video/mp4", "video.mp4"),
    "document": (AttachmentKind.FILE, "application/octet-stream", "file"),
    "sticker": (AttachmentKind.IMAGE, "image/webp", "sticker.webp"),
}


def _location_text(location: Location) -> str:
    named = ", ".join(part for part in (location.name, location.address) if part)
    point = f"{location.latitude:.6f}, {location.longitude:.6f}"
    return f"[Location: {named} ({point})]" if named else f"[Location: {point}]"


def _order(order: Order) -> str:
    items = ", ".join(
        f"{item.quantity:g} x {item.product_retailer_id}"
        for item in order.product_items[:_MAX_CARDS]
    )
    return f"{order.text}\n[Order: {items}]".strip()
