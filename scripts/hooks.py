"""Writes docs/reference/hooks from the code: a page for each hook point, and their list.

`--check` only reports whether the pages are current. The pages contain docstrings of the code: the
time of each call in `hooks.py`, payloads and changes in `payloads.py` and `events.py`, and the
examples in docs/examples.
"""

import argparse
import ast
import inspect
import sys
from collections.abc import Iterator
from itertools import pairwise
from pathlib import Path
from typing import Any

from msgspec.structs import fields

from skerry.hooks import hooks
from skerry.hooks.events import RunContext
from skerry.hooks.hooks import Hooks
from skerry.hooks.points import Observe, Point
from skerry.hooks.runner import PAUSE_AFTER, PAUSE_MS

ROOT = Path(__file__).resolve().parent.parent
PAGES = ROOT / "docs" / "reference" / "hooks"
EXAMPLES = ROOT / "docs" / "examples" / "hooks"
PAUSE = (
    f"After {PAUSE_AFTER} failures in a row a handler is paused for {PAUSE_MS // 1000} s; the log"
    " names it."
)


def pages() -> dict[str, str]:
    """Returns the text of each page by its file name."""
    points = Hooks().points
    texts = {f"{name}.md": page(point) for name, point in points.items()}
    return texts | {"README.md": overview(list(points.values()))}


def overview(points: list[Point[Any, Any]]) -> str:
    """Returns the list of all points."""
    when = _notes_of_hooks()
    rows = "\n".join(
        f"| [`{point.name}`]({point.name}.md) | {point.kind} | {point.timeout:g} s"
        f" | {when[point.name].partition('. ')[0].rstrip('.')} |"
        for point in points
    )
    return f"""# Hooks

A plugin registers functions at these points; a message meets them in this order. The tool hooks
repeat for each tool call, `llm_input` and `llm_output` for each call of the model, and
`before_message_write` for each entry of the transcript.

| hook | kind | time limit of a handler | when |
|---|---|---|---|
{rows}

| kind | handlers | a handler that fails |
|---|---|---|
| observe | watch, all at the same time; nothing waits for them | is skipped |
| transform | run one after another, highest priority first, and may return a change | is skipped |
| synchronous transform | the same; plain functions only | is skipped |
| guard | the same, and may refuse | refuses: a broken guard must not allow the action |

A handler gets one record, the payload, and returns None or the change of its point. Equal
priorities keep the order in which they were registered. An async function runs in the gateway's
event loop and must not block it; a plain function runs in a thread of its own. A handler that
raises, is late, or returns something else has failed.
{PAUSE}

Most payloads have a `context`, a `{_record(RunContext)}

This page and those it links are written by `scripts/hooks.py` from the code.
"""


def page(point: Point[Any, Any]) -> str:
    """Returns the page of one point."""
    example = (EXAMPLES / f"{point.name}.py").read_text("utf-8")
    if isinstance(point, Observe):
        returned = "None: the return value of a handler is ignored."
    else:
        returned = f"None, or `{_record(point.returns)}"
    return f"""# {point.name}

{_notes_of_hooks()[point.name]}

| | |
|---|---|
| kind | {point.kind} |
| time limit of a handler | {point.timeout:g} s |
| a handler that fails | {point.on_failure} |

{PAUSE}

## Payload

`{_record(point.payload)}

## Result

{returned}

## Example

```python
{example.rstrip()}
```

[All hooks](README.md)
"""


def _record(record: type) -> str:
    """Returns the name of the record, its closing backtick, its description, and its fields."""
    first, _, rest = str(record.__doc__).partition("\n")
    more = " ".join(rest.split())
    notes = _notes(ast.parse(inspect.getsource(sys.modules[record.__module__])), record.__name__)
    rows = "\n".join(
        f"| `{field.name}` | `{_type(field.type)}` | {notes.get(field.name, '')} |"
        for field in fields(record)
    )
    text = " ".join(part for part in (first, more) if part)
    return f"{record.__name__}`: {text}\n\n| field | type | |\n|---|---|---|\n{rows}"


def _type(annotation: object) -> str:
    text = annotation.__name__ if isinstance(annotation, type) else str(annotation)
    if "[" in str(annotation):
        text = str(annotation)
    for prefix in ("skerry.model.message.", "skerry.model.ids.", "collections.abc.", "typing."):
        text = text.replace(prefix, "")
    return text.replace(" | ", " or ")


def _notes(tree: ast.Module, name: str) -> dict[str, str]:
    """Returns the docstring below each field of the class `name`."""
    record = next(
        node for node in tree.body if isinstance(node, ast.ClassDef) and node.name == name
    )
    return {
        node.target.id: note
        for node, note in _documented(record.body)
        if isinstance(node, ast.AnnAssign) and isinstance(node.target, ast.Name)
    }


def _notes_of_hooks() -> dict[str, str]:
    """Returns the docstring below each point, which says when it is called."""
    tree = ast.parse(Path(hooks.__file__).read_text("utf-8"))
    constructor = next(
        node
        for node in ast.walk(tree)
        if isinstance(node, ast.FunctionDef) and node.name == "__init__"
    )
    return {
        node.targets[0].attr: note
        for node, note in _documented(constructor.body)
        if isinstance(node, ast.Assign) and isinstance(node.targets[0], ast.Attribute)
    }


def _documented(body: list[ast.stmt]) -> Iterator[tuple[ast.stmt, str]]:
    """Yields each statement that is followed by a docstring, with the docstring in one line."""
    for node, following in pairwise(body):
        match following:
            case ast.Expr(value=ast.Constant(value=str(text))):
                yield node, " ".join(text.split())


def main() -> int:
    """Writes the pages; with `--check` returns 1 if a page is stale."""
    parser = argparse.ArgumentParser(description="The reference pages of the hooks.")
    parser.add_argument("--check", action="store_true", help="write nothing")
    check = parser.parse_args().check
    stale = 0
    for name, text in pages().items():
        path = PAGES / name
        if not path.exists() or path.read_text("utf-8") != text:
            stale = 1
            print(f"{'stale' if check else 'written'}: {path.relative_to(ROOT)}")
            if not check:
                path.write_text(text, "utf-8")
    return stale if check else 0


if __name__ == "__main__":
    sys.exit(main())
