"""Reads `tests/requirements.toml` and the marks of the tests; `--update` rewrites the file.

The mark `@pytest.mark.requirement("rule-id")` names a rule that a test proves. The file repeats it,
so that a reader sees the proved rules, and a removed test is noticed.
"""

import argparse
import ast
import re
import sys
import tomllib
from collections import defaultdict
from collections.abc import Iterator
from pathlib import Path
from typing import Any

ROOT = Path(__file__).resolve().parent.parent
MANIFEST = ROOT / "tests" / "requirements.toml"
HEADER = re.compile(r"^\[rules\.(?P<id>[a-z0-9-]+)\]$", re.MULTILINE)
OWN_LINES = re.compile(r"^(status = .*|tests = \[(.|\n)*?^\]|tests = \[.*\])\n", re.MULTILINE)


class MarkError(Exception):
    """A mark whose rule cannot be read without running the test."""


def rules(path: Path = MANIFEST) -> dict[str, dict[str, Any]]:
    """Returns the rules of a manifest by their id."""
    with path.open("rb") as file:
        table: dict[str, dict[str, Any]] = tomllib.load(file)["rules"]
    return table


def marks(tests: Path = ROOT / "tests") -> dict[str, list[str]]:
    """Returns the marked tests (`tests/file.py::name`) with the rules that each proves.

    Raises:
        MarkError: a mark names no rule as plain text.
    """
    marked: dict[str, list[str]] = {}
    for path in sorted(tests.rglob("test_*.py")):
        if "node_modules" in path.parts:
            continue
        text = path.read_text(encoding="utf-8")
        if "requirement" not in text:
            continue  # parsing all files takes seconds
        tree = ast.parse(text, str(path))
        file_name = path.relative_to(tests.parent).as_posix()
        marked |= {f"{file_name}::{name}": ids for name, ids in _marked(tree) if ids}
    return marked


def _marked(scope: ast.Module | ast.ClassDef) -> Iterator[tuple[str, list[str]]]:
    for node in scope.body:
        if isinstance(node, ast.ClassDef):
            yield from ((f"{node.name}::{name}", ids) for name, ids in _marked(node))
        elif isinstance(node, ast.FunctionDef | ast.AsyncFunctionDef):
            ids = (_rule(decorator) for decorator in node.decorator_list)
            yield node.name, [id_ for id_ in ids if id_ is not None]


def _rule(decorator: ast.expr) -> str | None:
    if not ast.unparse(decorator).startswith("pytest.mark.requirement"):
        return None
    match decorator:
        case ast.Call(args=[ast.Constant(value=str(rule))], keywords=[]):
            return rule
        case _:
            raise MarkError(f"line {decorator.lineno}: one rule as plain text, a mark for each")


def updated(text: str, marked: dict[str, list[str]]) -> str:
    """Returns the manifest's text with `status` and `tests` updated from the marks."""
    proofs: dict[str, list[str]] = defaultdict(list)
    for test, ids in marked.items():
        for rule in ids:
            proofs[rule].append(test)
    starts = [*HEADER.finditer(text)]
    ends = [match.start() for match in starts[1:]] + [len(text)]
    parts = [text[: starts[0].start()]]
    for match, end in zip(starts, ends, strict=True):
        parts.append(_entry(text[match.start() : end], proofs.get(match["id"], [])))
    return "".join(parts)


def _entry(block: str, tests: list[str]) -> str:
    other_lines = OWN_LINES.sub("", block)
    body, gap, rest = other_lines.partition("\n\n")
    lines = [body.rstrip("\n"), f'status = "{"done" if tests else "planned"}"']
    if tests:
        lines += ["tests = [", *(f'    "{test}",' for test in sorted(tests)), "]"]
    return "\n".join(lines) + (gap or "\n") + rest


def main() -> int:
    """Prints the number of proved rules; with `--update` writes the manifest first."""
    parser = argparse.ArgumentParser(
        description="The rules of the seeds and the tests that prove them."
    )
    parser.add_argument("--update", action="store_true", help="write tests/requirements.toml")
    if parser.parse_args().update:
        MANIFEST.write_text(
            updated(MANIFEST.read_text(encoding="utf-8"), marks()), encoding="utf-8"
        )
    table = rules()
    unknown = sorted({rule for ids in marks().values() for rule in ids} - table.keys())
    for rule in unknown:
        print(f"no such rule: {rule}", file=sys.stderr)
    proved = sum(entry["status"] == "done" for entry in table.values())
    print(f"{proved} of {len(table)} rules are done")
    return 1 if unknown else 0


if __name__ == "__main__":
    sys.exit(main())
