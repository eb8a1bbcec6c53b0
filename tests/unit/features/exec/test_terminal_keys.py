"""Keys in the notation of tmux, and pasted text, as a terminal sends them."""

import pytest

from skerry.features.exec import terminal_keys


@pytest.mark.parametrize(
    ("tokens", "sent"),
    [
        (["C-c"], b"\x03"),
        (["^d"], b"\x04"),
        (["C-Space"], b"\x00"),
        (["M-Enter"], b"\x1b\r"),
        (["S-Tab"], b"\x1b[Z"),
        (["Down", "C-S-Right"], b"\x1b[B\x1b[1;6C"),
        (["F5", "NPage", "BSpace"], b"\x1b[15~\x1b[6~\x7f"),
        (["hello", "Space", "é"], "hello é".encode()),
    ],
)
def test_tokens_are_those_of_tmux(tokens: list[str], sent: bytes) -> None:
    assert terminal_keys.encoded(tokens) == sent


def test_a_paste_cannot_end_itself() -> None:
    inner = "a\x1b[201~b\x1b[20\x1b[201~1~c"
    data = terminal_keys.pasted(inner, bracketed=True)
    assert data.startswith(b"\x1b[200~")
    assert data.endswith(b"\x1b[201~")
    assert data.count(b"\x1b[201~") == 1
