"""Names of keys, as models write them."""

import pytest

from skerry.features.browser.keys import Key, key_of
from skerry.model.errors import ToolError


@pytest.mark.parametrize(
    ("name", "key"),
    [
        ("Enter", Key("Enter", "Enter", 13, "\r")),
        ("a", Key("a", "KeyA", 65, "a")),
        ("+", Key("+", "", 43, "+")),
        ("Space", Key(" ", "Space", 32, " ")),
        ("Control+A", Key("A", "KeyA", 65, "", 2)),
        ("Ctrl+Shift+End", Key("End", "End", 35, "", 10)),
        ("Shift+a", Key("a", "KeyA", 65, "a", 8)),
        ("F5", Key("F5", "F5", 116, "")),
        ("ü", Key("ü", "Keyü".replace("Keyü", ""), 0, "ü")),
    ],
)
def test_keys_and_their_modifiers(name: str, key: Key) -> None:
    assert key_of(name) == key


def test_a_key_is_pressed_and_released() -> None:
    down, up = key_of("x").events()
    assert (down["type"], down["text"], up["type"]) == ("keyDown", "x", "keyUp")
    assert key_of("Tab").events()[0]["type"] == "rawKeyDown"


@pytest.mark.parametrize("name", ["Entre", "Control+", "Hyper+a", "", "++", "ab"])
def test_an_unknown_key_names_the_known_ones(name: str) -> None:
    with pytest.raises(ToolError, match="Unknown"):
        key_of(name)
