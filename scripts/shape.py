"""Prints the shape of the source as one table: before issue 12, and today.

Both columns are counted by the same code: the first in a copy of the commit before the issue, the
second in the tree. Only the way of a message is followed in today's tree alone (`scripts.walk`);
the earlier figures are stored in this file.

    python -m scripts.shape           prints the table
    python -m scripts.shape --write   puts it into docs/architecture.md
"""

import argparse
import ast
import re
import subprocess
import sys
import tarfile
import tempfile
from collections import Counter, defaultdict
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass, field
from io import BytesIO
from pathlib import Path
from typing import Final

import anyio

from scripts import names
from scripts.requirements import ROOT

BEGIN: Final = "7249bc4f"
"""Commit before the first of issue 12."""
TURN_AT_BEGIN: Final = (126, 601, 17)
"""Files, functions and packages of a text turn in that commit, followed as `scripts.walk` does."""
DOCUMENT: Final = ROOT / "docs" / "architecture.md"
TABLE: Final = re.compile(r"^\| shape \|.*\n(\|.*\n)+", re.MULTILINE)
FEATURES: Final = "skerry/features"
RECALL: Final = "skerry_recall"
"""Package of the memory's search."""
PARTS: Final = (FEATURES, RECALL, "skerry/channels", "skerry_relayer", "skerry_memwal")
"""Packages that the kernel runs without."""
UNCLEAR: Final = re.compile(
    r"\s*((What|Whatever|Whether|Who|Whom|Whose|How|Of|Which|Where|When|Why|That|If)\b"
    r"|Returns? what\b|(Return|Yield|Take|Give|Make|Send|Keep|Tell|Bring|Add|Forget|Remove)\b)"
)
"""Beginnings of docstrings without a noun or in the imperative."""


@dataclass(slots=True)
class Shape:
    """Counts of one tree."""

    lines: Counter[str] = field(default_factory=Counter[str])
    """Lines of Python by package."""
    modules: dict[str, int] = field(default_factory=lambda: defaultdict[str, int](int))
    classes: dict[str, int] = field(default_factory=lambda: defaultdict[str, int](int))
    shared_modules: int = 0
    """Names of modules that several files use which see each other, as `scripts.names` counts."""
    shared_classes: int = 0
    inner_imports: int = 0
    docstrings: int = 0
    unclear: int = 0

    def rows(self) -> dict[str, str]:
        """Returns the figures of the table by their names."""
        whole = sum(self.lines.values())
        features = self.lines[FEATURES]
        named = {
            "lines of Python": f"{whole:,}",
            "in `skerry/features`": _share(features, whole),
            "in `skerry/features` and `skerry_recall`": _share(
                features + self.lines[RECALL], whole
            ),
            "in these, the channels, the relayer and its plugin": _share(
                sum(map(self.lines.__getitem__, PARTS)), whole
            ),
            "in `skerry/app`": f"{self.lines['skerry/app']:,}",
            "imports inside functions": f"{self.inner_imports}",
            "module names used twice or more": f"{_twice(self.modules)}",
            "class names used twice or more": f"{_twice(self.classes)}",
            "module names used twice by files that see each other": f"{self.shared_modules}",
            "class names used for several things": f"{self.shared_classes}",
            "docstrings that break the rule of language": _share(self.unclear, self.docstrings),
        }
        packages = {f"lines of `{name}`": f"{self.lines[name]:,}" for name in sorted(self.lines)}
        return named | packages


def _twice(names: Mapping[str, int]) -> int:
    return sum(count > 1 for count in names.values())


def _share(part: int, whole: int) -> str:
    return f"{part:,} of {whole:,} ({part / max(whole, 1):.0%})"


def package(file: str) -> str:
    """Returns the package that a file below `src` is in, such as `skerry/runtime`."""
    first, _, rest = file.partition("/")
    inner = rest.partition("/")[0] if "/" in rest else ""
    return f"{first}/{inner}" if first == "skerry" and inner else first


def docstrings(tree: ast.Module) -> Iterator[tuple[int, str]]:
    """Yields line and text of the docstrings, those of attributes included."""
    for node in ast.walk(tree):
        if not isinstance(node, ast.Module | ast.ClassDef | ast.FunctionDef | ast.AsyncFunctionDef):
            continue
        for before, statement in zip([None, *node.body], node.body, strict=False):
            if before is None or isinstance(before, ast.Assign | ast.AnnAssign):
                match statement:
                    case ast.Expr(ast.Constant(str() as text)):
                        yield statement.lineno, text


def inner_imports(tree: ast.Module) -> int:
    """Returns the number of imports inside functions."""
    lines = {
        node.lineno
        for function in ast.walk(tree)
        if isinstance(function, ast.FunctionDef | ast.AsyncFunctionDef)
        for node in ast.walk(function)
        if isinstance(node, ast.Import | ast.ImportFrom)
    }
    return len(lines)


def counted(source: Path) -> Shape:
    """Counts the Python files below a folder `src`."""
    shape, trees = Shape(), names.trees(source)
    shape.shared_modules = len(names.modules(trees))
    shape.shared_classes = len(names.classes(trees))
    for file, tree in trees.items():
        path = source / file
        shape.lines[package(file)] += path.read_text(encoding="utf-8").count("\n")
        if path.name != "__init__.py":
            shape.modules[path.name] += 1
        for node in ast.walk(tree):
            if isinstance(node, ast.ClassDef):
                shape.classes[node.name] += 1
        shape.inner_imports += inner_imports(tree)
        for _, docstring in docstrings(tree):
            shape.docstrings += 1
            shape.unclear += bool(UNCLEAR.match(docstring))
    return shape


def at_commit(commit: str) -> Shape:
    """Counts the source of a commit."""
    command = ["git", "archive", "--format=tar", commit, "src"]
    packed = subprocess.run(command, cwd=ROOT, check=True, capture_output=True).stdout  # noqa: S603 - a commit of this repository
    with tempfile.TemporaryDirectory() as folder, tarfile.open(fileobj=BytesIO(packed)) as archive:
        archive.extractall(folder, filter="data")
        return counted(Path(folder, "src"))


def of_turn() -> tuple[int, int, int]:
    """Returns the files, functions and packages that a text turn of today's tree enters."""
    from scripts import walk  # noqa: PLC0415 - starts a gateway; counting needs none

    with tempfile.TemporaryDirectory() as home:
        entered = anyio.run(walk.followed, Path(home)).entered
    files = {file for file, _ in entered}
    return len(files), len({*entered}), len({walk.package(file) for file in files})


def table(then: Mapping[str, str], now: Mapping[str, str]) -> str:
    """Returns both columns as a table of Markdown; a missing figure is a dash."""
    names = list(dict.fromkeys([*now, *then]))
    rows = [f"| {name} | {then.get(name, '-')} | {now.get(name, '-')} |" for name in names]
    head = f"| shape | before the issue (`{BEGIN}`) | today |\n|---|---|---|\n"
    return head + "".join(f"{row}\n" for row in rows)


def main(argv: Sequence[str] | None = None) -> int:
    """Runs the command; returns the exit code."""
    parser = argparse.ArgumentParser(description=(__doc__ or "").partition("\n")[0])
    parser.add_argument("--write", action="store_true", help="put the table into the document")
    options = parser.parse_args(argv)
    turns = [
        {
            "files of a text turn": f"{files}",
            "its functions": f"{calls}",
            "its packages": f"{rooms}",
        }
        for files, calls, rooms in (TURN_AT_BEGIN, of_turn())
    ]
    shapes = [at_commit(BEGIN), counted(ROOT / "src")]
    then, now = (turn | shape.rows() for turn, shape in zip(turns, shapes, strict=True))
    text = table(then, now)
    print(text, end="")
    if options.write:
        document = DOCUMENT.read_text(encoding="utf-8")
        if len(TABLE.findall(document)) != 1:
            print(f"{DOCUMENT} has not exactly one table of the shape", file=sys.stderr)
            return 1
        DOCUMENT.write_text(TABLE.sub(lambda _: text, document), encoding="utf-8")
    return 0


if __name__ == "__main__":
    sys.exit(main())
