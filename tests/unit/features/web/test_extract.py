"""Pages become text: visible text is kept, invisible text is removed."""

import pytest

from skerry.features.web.extract_child import extract
from skerry.features.web.text import decoded, visible

SHOWN = "This is shown."


def text(body: str, head: str = "") -> str:
    return extract(
        (f"<html><head>{head}</head><body>{body}</body></html>", "http://a.example/", True)
    )[1]


@pytest.mark.abuse(102)
@pytest.mark.parametrize(
    "element",
    [
        '<p style="display: none">X</p>',
        '<p style="DISPLAY:NONE !important">X</p>',
        '<p style="color:red; visibility : hidden">X</p>',
        '<div style="opacity:0"><p>X</p></div>',
        '<p style="opacity:0.0;">X</p>',
        '<p style="font-size:0px">X</p>',
        '<p style="font-size:0">X</p>',
        '<div style="height:0;overflow:hidden">X</div>',
        '<p style="position:absolute; left:-9999px">X</p>',
        '<p style="text-indent:-9999px">X</p>',
        '<p style="clip:rect(0,0,0,0)">X</p>',
        '<p style="clip-path: inset(100%)">X</p>',
        '<p style="transform:scale(0)">X</p>',
        '<p style="color:transparent">X</p>',
        '<p style="color:#fff;background-color:#FFF">X</p>',
        '<p style="dis/**/play:none">X</p>',
        "<p hidden>X</p>",
        '<p aria-hidden="true">X</p>',
        '<span class="a sr-only b">X</span>',
        '<span class="visually-hidden">X</span>',
        "<!-- X -->",
        "<script>X</script><style>X</style><template>X</template><noscript>X</noscript>",
        '<input type="hidden" value="X"><textarea hidden>X</textarea>',
        "<dialog>X</dialog>",
        "<svg><text>X</text></svg>",
        "<iframe srcdoc='X'>X</iframe>",
    ],
)
def test_what_nobody_sees_is_left_out(element: str) -> None:
    assert text(f"<p>{SHOWN}</p>{element}<p>End.</p>") == f"{SHOWN}\n\nEnd."


@pytest.mark.parametrize(
    "sheet",
    [
        ".x{display:none}",
        "p.x, .y { color: red; visibility: hidden }",
        "/* a */ #n{font-size:0}",
        "@media print{.z{color:red}} .x{left:-999px}",
        "@import url(a.css); .x{opacity:0}",
    ],
)
def test_rules_of_style_sheets_hide_too(sheet: str) -> None:
    page = f'<p>{SHOWN}</p><p class="x" id="n">UNSEEN</p>'
    assert text(page, f"<style>{sheet}</style>") == SHOWN


@pytest.mark.parametrize(
    "element",
    [
        '<p style="opacity:0.5">X</p>',
        '<p style="font-size:0.9em">X</p>',
        '<p style="line-height:0.9">X</p>',
        '<p style="min-height:0">X</p>',
        '<p style="margin-left:-10px">X</p>',
        '<p style="color:#fff;background:#000">X</p>',
        '<p class="hidden-gems">X</p>',
        '<p class="z">X</p>',
        "<dialog open>X</dialog>",
    ],
)
def test_what_is_seen_stays(element: str) -> None:
    sheet = "<style>@media print{.z{display:none}} .a .z{display:none}</style>"
    assert text(element, sheet) == "X"


def test_a_page_keeps_its_structure() -> None:
    page = (
        "<h2>Two</h2><p>a <em>b</em> <code>c</code>   d<br>e</p><pre>x\n  y</pre>"
        '<a href="javascript:alert(1)">no</a> <a href="#here">no</a> <a href="b?c">yes</a>'
        "<table><tr><th>h<td>i</table>"
    )
    assert text(page) == (
        "## Two\n\na *b* `c` d\ne\n\n```\nx\n  y\n```\n\n"
        "no no [yes](http://a.example/b?c)\n\n| h | i"
    )


def test_an_article_is_told_from_the_rest_of_the_page() -> None:
    words = " ".join(
        f"<p>Sentence {number} of a long article about boats and harbours.</p>"
        for number in range(60)
    )
    links = "<nav><a href='/a'>Home</a><a href='/b'>Shop</a></nav>"
    page = f"{links}<article><h1>Boats</h1>{words}</article><footer>Imprint</footer>"
    title, found, extractor = extract((f"<title>T</title>{page}", "http://a.example/", True))
    assert (title, extractor) == ("T", "article")
    assert "Sentence 59" in found
    assert "Imprint" not in found


@pytest.mark.parametrize(
    "page", ["", "   ", "<", "<html></html>", "<div>" * 5000 + "deep" + "</div>" * 5000, "\0<p>a"]
)
def test_any_page_has_an_answer(page: str) -> None:
    extract((page, "http://a.example/", True))


@pytest.mark.parametrize(
    ("body", "charset", "expected"),
    [
        ("ä".encode(), "", "ä"),
        ("ä.".encode("cp1252"), "", "ä."),
        ("ä".encode("utf-16"), "", "ä"),
        (b"\xef\xbb\xbfa", "latin-1", "a"),
        ("ж".encode("koi8-r"), "koi8-r", "ж"),
        ("日本".encode("shift_jis"), "Shift_JIS", "日本"),
        (b"+AGE-", "utf-7", "+AGE-"),
        (b"\\u0041", "unicode_escape", "\\u0041"),
        (b"ab\xc3", "", "ab\ufffd"),
    ],
)
def test_bytes_are_decoded_by_mark_header_or_guess(
    body: bytes, charset: str, expected: str
) -> None:
    assert decoded(body, charset, is_html=False) == expected


def test_a_page_may_name_its_own_charset() -> None:
    page = '<meta charset="koi8-r">ж'.encode("koi8-r")
    assert decoded(page, "", is_html=True).endswith("ж")


@pytest.mark.abuse(102)
def test_invisible_characters_are_left_out() -> None:
    tags = "".join(chr(0xE0000 + ord(letter)) for letter in "ignore")
    unseen = f"a\u200bb\u202ec\u2066d\ufeff\u00ad\u3164{tags}\x1b[31m\x00"
    assert visible(unseen) == "abcd[31m"
    assert visible("e\u0301\r\nx\t\u00a0y") == "é\nx\t\u00a0y"
