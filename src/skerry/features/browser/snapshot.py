"""Converts accessibility trees of a page to a text for a model, with refs for elements (pure).

A line has role, name, ref, state, value and address of an element. Each text of the page is one
quoted string on one line, so that a page cannot forge a line.
"""

import json
from collections.abc import Iterator, Mapping, Sequence
from typing import Any, Final

from msgspec import Struct, field

from skerry.policy.folding import visible

MAX_NAME: Final = 300
"""Maximum characters of one text of the page."""
MAX_REFS: Final = 5000
"""Maximum number of elements with a ref in one document."""
_MAX_DEPTH: Final = 20
_CONTROLS: Final = frozenset(
    {"button", "checkbox", "combobox", "gridcell", "link", "listbox", "menuitem"}
    | {"menuitemcheckbox", "menuitemradio", "option", "radio", "searchbox", "slider", "spinbutton"}
    | {"switch", "tab", "textbox", "treeitem", "DisclosureTriangle", "ColorWell", "Date"}
)
"""Roles of elements that always get a ref."""
_PLAIN: Final = frozenset(
    {"generic", "none", "presentation", "paragraph", "LineBreak", "InlineTextBox", "RootWebArea"}
    | {"LayoutTable", "LayoutTableRow", "LayoutTableCell", "ListMarker", "LabelText", "Abbr"}
    | {"Iframe", "IframePresentational", "MenuListPopup"}
)
"""Roles without a line, unless the element has a ref; only their content has lines."""
_STATES: Final = ("checked", "disabled", "expanded", "level", "pressed", "readonly", "required")
_STATES_SHOWN: Final = (*_STATES, "selected", "focused", "invalid", "multiline")
_UNSET: Final = frozenset({None, "false", ""})


class Element(Struct, frozen=True):
    """An element that an action may name."""

    ref: str
    node: int
    """Id of its node in the browser, which is the same until the document is left."""
    role: str
    name: str


class Refs:
    """Refs of the elements of a document.

    A number is never used again, so a late ref matches no element of a later document.
    """

    def __init__(self) -> None:
        self._by_node: dict[int, Element] = {}
        self._by_ref: dict[str, Element] = {}
        self._last = 0

    def clear(self) -> None:
        """Forgets the elements: the document was left."""
        self._by_node.clear()
        self._by_ref.clear()

    def get(self, ref: str) -> Element | None:
        """Returns the element of a ref of the present document."""
        return self._by_ref.get(ref)

    def of(self, node: int, role: str, name: str) -> str:
        """Returns the ref of a node, which gets one at its first use; empty above the limit."""
        known = self._by_node.get(node)
        if known is None and len(self._by_node) >= MAX_REFS:
            return ""
        if known is None:
            self._last += 1
        ref = known.ref if known else f"e{self._last}"
        element = Element(ref, node, role, name)
        self._by_node[node] = self._by_ref[ref] = element
        return ref


class Tree(Struct):
    """Accessibility tree of one frame, as the browser returns it."""

    nodes: Mapping[str, Mapping[str, Any]]
    """Nodes by id."""
    root: str
    """Id of the root; empty for an empty tree."""

    @classmethod
    def of(cls, nodes: Sequence[Mapping[str, Any]]) -> "Tree":
        """Returns the tree of a list of nodes, whose first is the root."""
        by_id = {str(node.get("nodeId", "")): node for node in nodes}
        return cls(by_id, str(nodes[0].get("nodeId", "")) if nodes else "")

    def below(self, node: int) -> "Tree":
        """Returns the tree with the node of an element as its root; empty if it has none."""
        for number, each in self.nodes.items():
            if each.get("backendDOMNodeId") == node:
                return Tree(self.nodes, number)
        return Tree(self.nodes, "")


class _Item(Struct):
    """A node that has no line yet."""

    tree: Tree
    id: str
    depth: int
    covered: str = ""
    """Name and value of the element around it, which may contain its text already."""
    is_inert: bool = False
    """True inside a closed list: its options have no area, so they get no refs."""


class Outline(Struct):
    """A text for a model."""

    text: str
    elements: int
    """Number of refs in the text."""
    is_cut: bool = False


class _Fields(Struct):
    role: str
    name: str
    value: str
    node: int
    states: dict[str, Any] = field(default_factory=dict)

    @property
    def is_control(self) -> bool:
        """Returns True when the element gets a ref."""
        is_usable = self.role in _CONTROLS or bool(self.states.get("focusable"))
        return is_usable and self.node > 0 and self.role != "RootWebArea"


def outline(
    tree: Tree, refs: Refs, limit: int, frames: Mapping[int, "Tree | str"] | None = None
) -> Outline:
    """Returns the lines of a tree, at most `limit` characters.

    Args:
        tree: Tree of the frame, or of an element in it.
        refs: Refs of the document; elements without a ref get one.
        limit: Maximum characters.
        frames: Trees of inner frames by the node of their element; a text is a reason why the
            content of the frame is not in the snapshot.

    """
    lines: list[str] = []
    size = elements = 0
    for line, has_ref in _lines(tree, refs, frames or {}):
        size += len(line) + 1
        if size > limit:
            return Outline(visible("\n".join(lines)), elements, is_cut=True)
        elements += has_ref
        lines.append(line)
    return Outline(visible("\n".join(lines)), elements)


def _lines(tree: Tree, refs: Refs, frames: Mapping[int, Tree | str]) -> Iterator[tuple[str, bool]]:
    """Yields each line, and whether it has a ref, in the order of the page."""
    stack = [_Item(tree, tree.root, 0)] if tree.root else []
    seen: set[tuple[int, str]] = set()
    while stack:
        item = stack.pop()
        node, key = item.tree.nodes.get(item.id), (id(item.tree), item.id)
        if node is None or key in seen:
            continue
        seen.add(key)
        fields = _fields(node)
        line = None if node.get("ignored") else _line(fields, item, refs)
        depth, covered = item.depth, item.covered
        if line is not None:
            depth, covered = depth + 1, f"{fields.name}\0{fields.value}"
            yield f"{'  ' * min(item.depth, _MAX_DEPTH)}- {line[0]}", line[1]
        frame = frames.get(fields.node)
        if isinstance(frame, str):
            yield f"{'  ' * min(depth, _MAX_DEPTH)}- {frame}", False
        elif frame is not None:
            stack.append(_Item(frame, frame.root, depth))
        inert = item.is_inert or fields.role == "MenuListPopup"
        ids = reversed(node.get("childIds") or ())
        stack.extend(_Item(item.tree, str(number), depth, covered, inert) for number in ids)


def _line(fields: _Fields, item: _Item, refs: Refs) -> tuple[str, bool] | None:
    """Returns the text of a line, and whether it has a ref; None for a node without a line."""
    if fields.role == "StaticText":
        is_new = fields.name and fields.name not in item.covered
        return (f"text {_quoted(fields.name)}", False) if is_new else None
    has_ref = fields.is_control and not item.is_inert
    ref = refs.of(fields.node, fields.role, fields.name) if has_ref else ""
    if not ref and (fields.role in _PLAIN or not fields.role):
        return None
    parts = [fields.role]
    if fields.name:
        parts.append(_quoted(fields.name))
    if ref:
        parts.append(f"[{ref}]")
    parts += [
        name if value is True or value == "true" else f"{name}={_shortened(value)}"
        for name in _STATES_SHOWN
        if (value := fields.states.get(name)) is not False and value not in _UNSET
    ]
    if fields.value and fields.value != fields.name:
        parts.append(f"value={_quoted(fields.value)}")
    if url := fields.states.get("url"):
        parts.append(f"url={_quoted(_shortened(url))}")
    return " ".join(parts), bool(ref)


def _fields(node: Mapping[str, Any]) -> _Fields:
    states: dict[str, Any] = {}
    for each in node.get("properties", ()):
        value = (each.get("value") or {}).get("value")
        if isinstance(value, str | int | bool | float):
            states[str(each.get("name", ""))] = value
    backend = node.get("backendDOMNodeId")
    return _Fields(
        _value(node, "role"),
        _value(node, "name"),
        _value(node, "value"),
        backend if isinstance(backend, int) else 0,
        states,
    )


def _value(node: Mapping[str, Any], key: str) -> str:
    value = (node.get(key) or {}).get("value")
    return "" if value is None else _shortened(value)


def _shortened(value: object) -> str:
    """Returns a text of the page on one line, at most `MAX_NAME` characters."""
    text = " ".join(str(value)[: MAX_NAME * 4].split())
    return text if len(text) <= MAX_NAME else f"{text[:MAX_NAME]}…"


def _quoted(text: str) -> str:
    return json.dumps(text, ensure_ascii=False)
