"""Names of keys as the browser expects them (pure)."""

from typing import Final

from msgspec import Struct

from skerry.model.errors import ToolError

MODIFIERS: Final = {"Alt": 1, "Control": 2, "Ctrl": 2, "Meta": 4, "Shift": 8}
_NAMED: Final = {
    "Enter": (13, "\r"),
    "Tab": (9, ""),
    "Escape": (27, ""),
    "Backspace": (8, ""),
    "Delete": (46, ""),
    "Space": (32, " "),
    "ArrowLeft": (37, ""),
    "ArrowUp": (38, ""),
    "ArrowRight": (39, ""),
    "ArrowDown": (40, ""),
    "Home": (36, ""),
    "End": (35, ""),
    "PageUp": (33, ""),
    "PageDown": (34, ""),
    **{f"F{number}": (111 + number, "") for number in range(1, 13)},
}
"""Key code and text of each key with a name."""


class Key(Struct, frozen=True):
    """A key with its modifiers."""

    key: str
    code: str
    number: int
    text: str
    modifiers: int = 0

    def events(self) -> list[dict[str, object]]:
        """Returns the parameters of the events that press and release the key."""
        common = {
            "key": self.key,
            "code": self.code,
            "windowsVirtualKeyCode": self.number,
            "modifiers": self.modifiers,
        }
        down = {"type": "keyDown", "text": self.text} if self.text else {"type": "rawKeyDown"}
        return [{**common, **down}, {**common, "type": "keyUp"}]


def key_of(text: str) -> Key:
    """Returns the key of a name such as `Enter`, `a` or `Control+Shift+A`.

    Raises:
        ToolError: there is no such key.
    """
    *prefix, name = [text] if len(text) == 1 else text.split("+")
    if any(each not in MODIFIERS for each in prefix):
        raise ToolError(f"Unknown modifier in {text!r}. Modifiers: {', '.join(MODIFIERS)}.")
    modifiers = sum({MODIFIERS[each] for each in prefix})
    shortcut = modifiers & ~MODIFIERS["Shift"]
    if name in _NAMED:
        number, value = _NAMED[name]
        key = " " if name == "Space" else name
        return Key(key, name, number, "" if shortcut else value, modifiers)
    if len(name) != 1:
        raise ToolError(f"Unknown key {name!r}. Keys: one character, {', '.join(_NAMED)}.")
    code = f"Key{name.upper()}" if name.isascii() and name.isalpha() else ""
    number = ord(name.upper()) if name.isascii() else 0
    return Key(name, code, number, "" if shortcut else name, modifiers)
