"""The shape of the source is counted as its table says."""

import ast
from pathlib import Path

from scripts.shape import counted, inner_imports, package, table

ONE = '''"""Names of one."""

import os


class Place:
    """Whether it is one."""

    kind: int = 1
    """Kind of the place."""


def look() -> None:
    """Looks."""
    import sys
    from pathlib import Path
'''
TWO = '"""Names of two."""\n\n\nclass Place:\n    """Another place."""\n'


def tree(folder: Path) -> Path:
    for name, text in (
        ("skerry/app/files.py", ONE),
        ("skerry/features/cron/files.py", TWO),
        ("skerry_recall/terms.py", '"""Terms."""\n'),
        ("skerry/__init__.py", '"""The gateway."""\n'),
    ):
        path = folder / name
        path.parent.mkdir(parents=True, exist_ok=True)
        path.write_text(text, encoding="utf-8")
    return folder


def test_names_imports_docstrings_and_lines_are_counted(tmp_path: Path) -> None:
    rows = counted(tree(tmp_path)).rows()
    assert rows["lines of Python"] == "23"
    assert rows["in `skerry/features`"] == "5 of 23 (22%)"
    assert rows["in `skerry/features` and `skerry_recall`"] == "6 of 23 (26%)"
    assert rows["imports inside functions"] == "2"
    assert rows["module names used twice or more"] == "1"
    assert rows["class names used twice or more"] == "1"
    assert rows["module names used twice by files that see each other"] == "1"
    assert rows["class names used for several things"] == "1"
    assert rows["docstrings that break the rule of language"] == "1 of 8 (12%)"
    assert rows["lines of `skerry/app`"] == "16"


def test_an_import_inside_a_function_inside_another_counts_once() -> None:
    text = "import a\ndef f():\n    def g():\n        import b\n    import c\n"
    assert inner_imports(ast.parse(text)) == 2


def test_a_file_is_in_the_package_of_its_folder() -> None:
    files = ["skerry/runtime/loop.py", "skerry/features/cron/cli.py", "skerry_recall/terms.py"]
    assert [package(file) for file in files] == [
        "skerry/runtime",
        "skerry/features",
        "skerry_recall",
    ]
    assert package("skerry/__main__.py") == "skerry"


def test_the_table_has_what_either_column_has() -> None:
    text = table({"a": "1", "gone": "2"}, {"a": "3", "new": "4"})
    assert text.splitlines()[2:] == ["| a | 1 | 3 |", "| new | - | 4 |", "| gone | 2 | - |"]
