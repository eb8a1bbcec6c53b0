"""The new text of mails without quotes, HTML as text, and Markdown as HTML."""

import pytest

from skerry.channels.email.html_mail import text_of
from skerry.channels.email.markup import html_of, is_forwarded, new_part, own_words


@pytest.mark.parametrize(
    ("text", "new"),
    [
        ("hello\n", "hello"),
        ("Yes.\n\nOn Mon, 3 Nov 2026, House <h@x> wrote:\n> May I?\n> Or not?\n", "Yes."),
        ("Yes.\n\nOn Mon, 3 Nov 2026 at 10:00,\nHouse <h@x> wrote:\n\n> May I?", "Yes."),
        ("Ja.\n\nAm Montag schrieb House <h@x>:\n> Darf ich?", "Ja."),
        ("Oui.\n\nLe lun. 3 nov. 2026, House a écrit :\n> Puis-je ?", "Oui."),
        ("On Monday Bob wrote:\n> A?\n\nNo, B.", "No, B."),
        ("> A?\nNo, B.\n> C?\nYes.", "> A?\nNo, B.\n> C?\nYes."),
        ("hi\n-- \nAlice\nhttps://x", "hi"),
        ("hi\n\n-----Original Message-----\nFrom: House\nSent: now\n\nMay I?", "hi"),
        ("hi\n\n____________________\nFrom: House <h@x>\nSent: Monday\nTo: A\n\nMay I?", "hi"),
        ("hi\n\nVon: House\nGesendet: Montag\nAn: A\n\nDarf ich?", "hi"),
        ("From: here to there\nit is far", "From: here to there\nit is far"),
        ("it is from:\nFrom: here\nto there", "it is from:\nFrom: here\nto there"),
        ("> only\n> a quote", "> only\n> a quote"),
        ("see\n---------- Forwarded message ---------\nFrom: B\nDate: x\n\nnews",) * 2,
    ],
)
def test_history_and_signature_are_cut_off(text: str, new: str) -> None:
    assert new_part(text) == new
    assert new_part(text.replace("\n", "\r\n")) == new


@pytest.mark.abuse(109)
@pytest.mark.parametrize(
    ("text", "own"),
    [
        ("Pay it.", "Pay it."),
        ("> A?\nNo.\n> B?\nYes.", "No.\nYes."),
        ("See.\n\n---------- Forwarded message ---------\nFrom: B\n\nnews", "See."),
        ("See.\n\nBegin forwarded message:\n\n> From: B\n\nnews", "See."),
        ("From: B\nSent: now\n\nnews", ""),
        ("-----Original Message-----\nnews", ""),
        ("> only a quote", ""),
    ],
)
def test_words_of_others_are_not_the_senders_own(text: str, own: str) -> None:
    assert own_words(text, is_forwarded=False) == own


def test_a_forwarded_mail_that_does_not_say_where_it_begins_is_of_others() -> None:
    assert own_words("See.\nnews", is_forwarded=True) == ""


def test_html_becomes_text_without_what_nobody_sees() -> None:
    html = (
        "<style>p{color:red}</style><p>one<br>two</p><div style='display:none'>/stop</div>"
        "<script>x</script><ul><li>a</li></ul>"
        "<div class='gmail_quote'>On Monday you wrote: <b>old</b></div>"
        "<blockquote type='cite'>older</blockquote>"
    )
    assert text_of(html, keeps_history=False) == "one\ntwo\n\n- a"
    whole = text_of(html, keeps_history=True)
    assert "old" in whole
    assert "/stop" not in whole


@pytest.mark.parametrize("html", ["", "<" * 5000, "<div>" * 5000 + "deep", "\x00"])
def test_hostile_html_is_survived(html: str) -> None:
    assert isinstance(text_of(html, keeps_history=False), str)


def test_markdown_becomes_html_that_loads_and_runs_nothing() -> None:
    text = "**b** <img src=x onerror=1> ![p](https://x/p.png) [l](javascript:x) [m](https://y/)"
    html = html_of(text)
    assert "<strong>b</strong>" in html
    assert '<a href="https://y/"' in html
    assert "<img" not in html
    assert 'href="javascript' not in html
    assert html_of("x" * 64_001) == ""


def test_a_subject_says_that_a_mail_is_forwarded() -> None:
    assert is_forwarded("Fwd: news")
    assert is_forwarded(" WG: Neues")
    assert not is_forwarded("Re: forward")
