"""A name means one thing to whoever can see all its uses."""

import ast
import tomllib

import pytest

from scripts import names
from scripts.requirements import ROOT

TABLE = ROOT / "tests" / "names.toml"
FILES = {
    "skerry/store/usage.py": "class Row: ...",
    "skerry/features/usage/usage.py": "class Row: ...",
    "skerry/features/cron/schedule.py": "class Schedule: ...\nclass _Row: ...",
    "skerry/features/heartbeat/schedule.py": "class Schedule: ...",
    "skerry/features/cron/methods.py": "class Params: ...",
    "skerry/gateway/methods.py": "class Method: ...",
    "skerry_recall/schedule.py": "class Vectors: ...",
    "skerry/features/memory/index.py": "class Vectors: ...",
    "skerry_memwal/texts.py": "class Method: ...",
}


@pytest.fixture(scope="module")
def source() -> dict[str, ast.Module]:
    return names.trees(ROOT / "src")


def test_no_two_modules_share_a_name_but_those_of_one_subject(
    source: dict[str, ast.Module],
) -> None:
    table = tomllib.loads(TABLE.read_text(encoding="utf-8"))
    listed = set(table["modules"])
    shared = names.modules(source)
    more = {name: files for name, files in shared.items() if name not in listed}
    assert more == {}, "name the module by its subject, or list the subject that all share"
    assert sorted(listed - shared.keys()) == [], "these names are shared no more; take them away"
    assert all(table["modules"].values()), "each name has its subject beside it"


def test_no_two_public_classes_share_a_name(source: dict[str, ast.Module]) -> None:
    shared = names.classes(source)
    assert shared == {}, "name the class by what distinguishes it"


def test_features_may_share_a_name_with_each_other_and_not_with_the_kernel() -> None:
    trees = {file: ast.parse(text) for file, text in FILES.items()}
    assert names.modules(trees) == {
        "usage": ["skerry/features/usage/usage.py", "skerry/store/usage.py"]
    }
    assert names.classes(trees) == {
        "Row": ["skerry/features/usage/usage.py", "skerry/store/usage.py"],
        "Vectors": ["skerry/features/memory/index.py", "skerry_recall/schedule.py"],
    }


@pytest.mark.parametrize(
    ("file", "realm"),
    [
        ("skerry/store/usage.py", "skerry"),
        ("skerry/features/cron/tables.py", "skerry/features/cron"),
        ("skerry/channels/irc/adapter.py", "skerry/channels/irc"),
        ("skerry/channels/markdown.py", "skerry"),
        ("skerry_recall/terms.py", "skerry_recall"),
    ],
)
def test_a_file_belongs_to_the_package_whose_files_see_each_other(file: str, realm: str) -> None:
    assert names.realm(file) == realm
