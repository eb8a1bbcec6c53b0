"""The page on the architecture names every package, with about as many lines as it has."""

import re
from pathlib import Path

from scripts.requirements import ROOT
from skerry.infra.features import FEATURES

PAGE = ROOT / "docs" / "architecture.md"
SOURCE = ROOT / "src" / "skerry"
BESIDE = {
    name: ROOT / "src" / name for name in ("skerry_memwal", "skerry_recall", "skerry_relayer")
}
"""Packages of their own: shared with other programs, a program, a plugin."""
ROW = re.compile(r"^\| ((?:`\w+`(?:, )?)+) \| (\d+) \|", re.MULTILINE)


def lines(package: Path) -> int:
    return sum(len(file.read_text("utf-8").splitlines()) for file in package.rglob("*.py"))


def test_the_table_of_packages_is_complete_and_about_right() -> None:
    listed = {
        tuple(re.findall(r"\w+", names)): int(count)
        for names, count in ROW.findall(PAGE.read_text(encoding="utf-8"))
    }
    packages = {path.parent.name: path.parent for path in SOURCE.glob("*/__init__.py")} | BESIDE
    assert {name for names in listed for name in names} == packages.keys()
    for names, count in listed.items():
        there = sum(lines(packages[name]) for name in names)
        assert abs(there - count) <= max(200, there // 3), f"{names} has {there} lines"


STARTS = re.compile(
    r"\b(?:import|from) (?:subprocess|multiprocessing)\b|\b(?:open|run)_process\("
    r"|\bcreate_subprocess|\bos\.(?:fork|posix_spawn|spawn|system|popen)\w*\(|\bpty\.fork\("
)
"""Texts that start a process."""


def test_one_module_starts_child_processes() -> None:
    """`testing` is left out: its processes are started without the guard.

    `child_scope` is a program that `process` starts, and stands between it and a command.
    """
    files = [*SOURCE.rglob("*.py"), *BESIDE["skerry_recall"].rglob("*.py")]
    starting = {
        str(file.relative_to(SOURCE.parent))
        for file in files
        if STARTS.search(file.read_text("utf-8")) and not file.is_relative_to(SOURCE / "testing")
    }
    assert starting == {"skerry/infra/process.py", "skerry/infra/child_scope.py"}


def test_features_with_tables_declare_what_a_restore_and_an_erasure_read() -> None:
    features = [feature for feature in FEATURES if feature.tables]
    assert features
    for feature in features:
        for attribute in ("STEPS", "KEPT", "TEXTS"):
            assert isinstance(feature.load(f"tables:{attribute}"), tuple), feature.name
