"""Lines of IRC: parses and writes them."""

import re
from dataclasses import dataclass

_CODES = re.compile(
    r"\x03(?:\d{1,2}(?:,\d{1,2})?)?|\x04[0-9A-Fa-f]{0,6}|[\x02\x0f\x11\x16\x1d-\x1f]"
)
_UNSAFE = re.compile(r"[\x00-\x1f\x7f ,]")
_FOLDED = str.maketrans("[]\\^", "{}|~")


@dataclass(frozen=True, slots=True)
class Line:
    """One line of a server."""

    source: str
    """Sender: `nick!user@host`, or the server."""
    command: str
    """A word in capitals, or three digits."""
    words: tuple[str, ...]

    @property
    def last(self) -> str:
        """Returns the last word, which is the text of most lines."""
        return self.words[-1] if self.words else ""

    @property
    def nick(self) -> str:
        """Returns the nick of the sender."""
        return self.source.partition("!")[0]


def read(data: bytes) -> Line | None:
    """Returns a line; None for an empty one. Text that is not UTF-8 is read as Latin-1."""
    try:
        text = data.decode()
    except UnicodeDecodeError:
        text = data.decode("latin-1")
    source = ""
    if text.startswith("@"):  # tags, which the account did not request
        _, _, text = text.partition(" ")
    if text.startswith(":"):
        source, _, text = text[1:].partition(" ")
    head, is_long, tail = text.partition(" :")
    command, *words = head.split()[:16] or [""]
    if not command:
        return None
    return Line(source, command.upper(), (*words, tail) if is_long else tuple(words))


def written(command: str, *words: str) -> bytes:
    """Returns a line; its last word may have spaces."""
    *first, last = (command, *(word.replace("\r", "").replace("\n", " ") for word in words))
    text = " ".join((*first, f":{last}" if words else last))
    return text.replace("\0", "").encode() + b"\r\n"


def plain(text: str) -> str:
    """Returns a text without the codes of colours and of bold."""
    return _CODES.sub("", text)


def folded(name: str) -> str:
    """Returns a nick or the name of a channel as servers compare them."""
    return name.lower().translate(_FOLDED)


def is_name(name: str) -> bool:
    """Returns whether a text may be the nick or the channel of a line."""
    return bool(name) and not name.startswith(":") and _UNSAFE.search(name) is None
