"""Finds names that several files share for different things, if they can import each other.

A class is public if its name does not begin with an underscore. The file names of features
(`plugin.py`, `methods.py` and others) and `__init__` are conventions and are ignored. Features do
not import each other, nor do channels, so that two of them may have classes or modules of the same
name; each of them can import the kernel.

    python -m scripts.names [PREFIX]     prints the names that files below the prefix share
"""

import ast
import sys
from collections import defaultdict
from collections.abc import Iterable, Mapping, Sequence
from itertools import combinations
from pathlib import Path
from typing import Final

from scripts.requirements import ROOT

CONVENTIONS: Final = frozenset(
    {"plugin", "config", "methods", "commands", "cli", "cli_run", "tables", "checks", "service"}
    | {"late", "__main__", "__init__", "adapter", "wire", "api", "markup"}
)
"""Files that features and channels name alike, by their purpose."""
SEPARATE: Final = ("skerry/features", "skerry/channels")
"""Folders of packages that do not import each other."""
KERNEL: Final = "skerry"
RELATED: Final = frozenset(
    map(
        frozenset,
        [
            ("skerry_recall", "skerry_relayer"),
            ("skerry_recall", "skerry/features/memory"),
        ],
    )
)
"""Packages beside the kernel that import each other."""


def realm(file: str) -> str:
    """Returns the package of a file below `src` whose files all see each other."""
    first, second, *inner = file.split("/")
    if inner[1:] and f"{first}/{second}" in SEPARATE:
        return f"{first}/{second}/{inner[0]}"
    return first


def sees(first: str, second: str) -> bool:
    """Returns whether files of the two realms may import each other, or import both in a third."""
    if first == second or frozenset((first, second)) in RELATED:
        return True
    return KERNEL in {first, second} and first.partition("/")[0] == second.partition("/")[0]


def shared(names: Mapping[str, Sequence[str]]) -> dict[str, list[str]]:
    """Returns the names that several files use which see each other, with these files."""
    clashes: dict[str, list[str]] = {}
    for name, files in sorted(names.items()):
        pairs = combinations(files, 2)
        sharing = {file for pair in pairs if sees(*map(realm, pair)) for file in pair}
        if sharing:
            clashes[name] = sorted(sharing)
    return clashes


def modules(files: Iterable[str]) -> dict[str, list[str]]:
    """Returns the shared names of modules, with their files."""
    names: defaultdict[str, list[str]] = defaultdict(list)
    for file in files:
        stem = Path(file).stem
        if stem not in CONVENTIONS:
            names[stem].append(file)
    return shared(names)


def classes(trees: Mapping[str, ast.Module]) -> dict[str, list[str]]:
    """Returns the shared names of public classes, with their files."""
    names: defaultdict[str, list[str]] = defaultdict(list)
    for file, tree in trees.items():
        for node in ast.walk(tree):
            if isinstance(node, ast.ClassDef) and not node.name.startswith("_"):
                names[node.name].append(file)
    return shared(names)


def trees(source: Path) -> dict[str, ast.Module]:
    """Returns the parsed files below a folder `src` by their paths in it."""
    return {
        path.relative_to(source).as_posix(): ast.parse(path.read_text(encoding="utf-8"))
        for path in sorted(source.rglob("*.py"))
    }


def main(argv: Sequence[str]) -> int:
    """Prints the shared names; returns the exit code."""
    prefix = argv[0] if argv else ""
    parsed = trees(ROOT / "src")
    for kind, clashes in (("module", modules(parsed)), ("class", classes(parsed))):
        for name, files in clashes.items():
            if any(file.startswith(prefix) for file in files):
                print(f"{kind} {name}: {', '.join(files)}")
    return 0


if __name__ == "__main__":
    sys.exit(main(sys.argv[1:]))
