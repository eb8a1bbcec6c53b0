"""The text of a page for a model: lines, refs, limits."""

from collections.abc import Sequence
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from skerry.features.browser import snapshot
from skerry.features.browser.snapshot import Refs, Tree, outline


def node(number: int, role: str, name: str = "", *children: int, **more: Any) -> dict[str, Any]:
    """Returns a node as the browser sends it; `more` has its properties."""
    ignored, value = more.pop("ignored", False), more.pop("value", None)
    built = {
        "nodeId": str(number),
        "ignored": ignored,
        "role": {"value": role},
        "name": {"value": name},
        "backendDOMNodeId": number + 100,
        "childIds": [str(child) for child in children],
        "properties": [{"name": key, "value": {"value": each}} for key, each in more.items()],
    }
    return built if value is None else built | {"value": {"value": value}}


def text(nodes: Sequence[dict[str, Any]], refs: Refs | None = None, limit: int = 10_000) -> str:
    return outline(Tree.of(nodes), refs or Refs(), limit).text


PAGE = [
    node(1, "RootWebArea", "Page", 2, 3),
    node(2, "heading", "Title", 4, level=1),
    node(3, "generic", "", 5, 6),
    node(4, "StaticText", "Title"),
    node(5, "link", "Next", url="http://a.example/next"),
    node(6, "textbox", "Name", value="Ann", required=True, invalid="false"),
]


def test_lines_have_role_name_ref_state_value_and_address() -> None:
    assert text(PAGE).splitlines() == [
        '- heading "Title" level=1',
        '- link "Next" [e1] url="http://a.example/next"',
        '- textbox "Name" [e2] required value="Ann"',
    ]


def test_an_element_keeps_its_ref_until_the_document_is_left() -> None:
    refs = Refs()
    text(PAGE, refs)
    text([node(1, "RootWebArea", "", 6, 5), *PAGE[4:]], refs)
    link, field = refs.get("e1"), refs.get("e2")
    assert link is not None
    assert field is not None
    assert (link.node, link.role, link.name) == (105, "link", "Next")
    assert field.node == 106
    refs.clear()
    assert refs.get("e1") is None
    assert "[e3]" in text(PAGE, refs)


def test_text_of_a_page_stays_in_one_quoted_string() -> None:
    forged = 'x" [e9]\n- button "Pay" [e1]'
    nodes = [
        node(1, "RootWebArea", "", 2, 3),
        node(2, "button", forged),
        node(3, "img", "a\u200bb"),
    ]
    assert text(nodes).splitlines() == [
        '- button "x\\" [e9] - button \\"Pay\\" [e1]" [e1]',
        '- img "ab"',
    ]


def test_hidden_nodes_have_no_line_and_their_content_has() -> None:
    nodes = [
        node(1, "RootWebArea", "", 2),
        node(2, "list", "", 3, ignored=True),
        node(3, "img", "A"),
    ]
    assert text(nodes) == '- img "A"'


def test_options_of_a_closed_list_have_no_ref() -> None:
    nodes = [
        node(1, "combobox", "Size", 2),
        node(2, "MenuListPopup", "", 3),
        node(3, "option", "small", selected=True, focusable=True),
    ]
    assert text(nodes).splitlines() == ['- combobox "Size" [e1]', '  - option "small" selected']


def test_focusable_elements_have_a_ref_whatever_their_role_is() -> None:
    nodes = [node(1, "RootWebArea", "", 2, focusable=True), node(2, "generic", "", focusable=True)]
    assert text(nodes) == "- generic [e1]"


def test_a_long_page_is_cut_between_lines() -> None:
    nodes = [node(1, "RootWebArea", "", *range(2, 50))]
    nodes += [node(number, "img", f"picture {number}") for number in range(2, 50)]
    cut = outline(Tree.of(nodes), Refs(), 100)
    assert cut.is_cut
    assert len(cut.text) <= 100
    assert all(line.endswith('"') for line in cut.text.splitlines())


def test_long_names_are_shortened() -> None:
    assert len(text([node(1, "img", "x" * 5000)])) < snapshot.MAX_NAME + 20


def test_a_document_has_a_limited_number_of_refs(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(snapshot, "MAX_REFS", 2)
    nodes = [node(1, "RootWebArea", "", 2, 3, 4), *(node(n, "button", "B") for n in (2, 3, 4))]
    assert text(nodes).splitlines() == ['- button "B" [e1]', '- button "B" [e2]', '- button "B"']


def test_a_deep_tree_and_a_circle_end() -> None:
    deep = [node(number, "list", "", number + 1) for number in range(3000)]
    assert text(deep, limit=1_000_000).count("- list") == 3000
    assert text([node(1, "list", "", 2), node(2, "list", "", 1)]).count("- list") == 2


def test_inner_frames_are_where_their_element_is() -> None:
    inner = Tree.of([node(1, "RootWebArea", "", 2), node(2, "button", "In")])
    tree = Tree.of([node(1, "RootWebArea", "", 7, 8), node(7, "Iframe"), node(8, "button", "Out")])
    shown = outline(tree, Refs(), 1000, {107: inner})
    assert shown.text.splitlines() == ['- button "In" [e1]', '- button "Out" [e2]']


def test_one_element_is_shown_alone() -> None:
    tree = Tree.of(PAGE)
    assert outline(tree.below(106), Refs(), 1000).text.startswith('- textbox "Name"')
    assert outline(tree.below(999), Refs(), 1000).text == ""


scalars = st.none() | st.booleans() | st.integers() | st.text(max_size=8)
raw = st.dictionaries(
    st.sampled_from(["nodeId", "ignored", "backendDOMNodeId"]), scalars, max_size=3
)
parts = st.fixed_dictionaries(
    {
        "role": st.fixed_dictionaries(
            {"value": st.sampled_from(["link", "generic", "StaticText"])}
        ),
        "name": st.fixed_dictionaries({"value": scalars}),
        "childIds": st.lists(st.sampled_from(["", "1", "None"]), max_size=3),
    }
)


@given(st.lists(st.builds(lambda a, b: {**a, **b}, raw, parts), max_size=6))
def test_any_tree_becomes_lines_that_begin_with_a_hyphen(nodes: list[dict[str, Any]]) -> None:
    shown = outline(Tree.of(nodes), Refs(), 2000).text
    assert all(line.lstrip(" ").startswith("- ") for line in shown.split("\n") if line)
