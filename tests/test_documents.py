"""The documents describe what is there: configuration keys, variables, commands, decisions."""

import re
from argparse import ArgumentParser, _SubParsersAction
from collections.abc import Iterator
from pathlib import Path

import pytest
from pydantic import BaseModel

from scripts.requirements import ROOT
from skerry.cli.main import make_parser
from skerry.config.base import kind_of
from skerry.config.root import Config

GUIDE = ROOT / "docs" / "guide" / "configuration.md"
COMMANDS = ROOT / "docs" / "guide" / "commands.md"
DECISIONS = ROOT / "docs" / "adr"
ROW = re.compile(r"^\| `([a-z][A-Za-z]*(?:\.[A-Za-z.<>]+)?)` \|", re.MULTILINE)
COMMAND = re.compile(r"^\| `skerry ([a-z ]+)`.*\| ([^|]*) \|$", re.MULTILINE)
PARTS = ("Context", "Decision", "Alternatives", "Consequences", "Figures")
MAX_LINES = 60


def keys(section: type[BaseModel], prefix: str = "") -> Iterator[str]:
    """Yields the dotted keys of the file that hold no further section."""
    for field in section.model_fields.values():
        if field.exclude:
            continue
        key = f"{prefix}{field.alias}"
        kind = kind_of(field)
        if isinstance(kind, type) and issubclass(kind, BaseModel):
            yield from keys(kind, f"{key}.")
        else:
            yield key


def test_the_guide_lists_exactly_the_keys_of_the_configuration() -> None:
    listed = {row.removesuffix(".<name>") for row in ROW.findall(GUIDE.read_text(encoding="utf-8"))}
    assert listed == set(keys(Config))


def test_the_guide_names_every_variable_of_the_environment() -> None:
    sources = (ROOT / "src" / "skerry" / "config").glob("*.py")
    read = {
        name
        for path in sources
        for name in re.findall(r'"((?:SKERRY|OPENCLAW)_[A-Z_]+)"', path.read_text(encoding="utf-8"))
    }
    listed = set(re.findall(r"`((?:SKERRY|OPENCLAW)_[A-Z_]+)`", GUIDE.read_text(encoding="utf-8")))
    assert listed == read


def commands(parser: ArgumentParser, name: str = "") -> Iterator[tuple[str, set[str]]]:
    """Yields each command that has none beneath it, with its long options."""
    groups = [action for action in parser._actions if isinstance(action, _SubParsersAction)]
    for group in groups:
        for word, below in group.choices.items():
            yield from commands(below, f"{name} {word}".strip())
    if not groups:
        options = {text for action in parser._actions for text in action.option_strings}
        yield name, {text for text in options if text.startswith("--")} - {"--help"}


def test_the_guide_lists_exactly_the_commands_and_their_options() -> None:
    rows = COMMAND.findall(COMMANDS.read_text(encoding="utf-8"))
    listed = {name: set(re.findall(r"`(--[a-z-]+)`", options)) for name, options in rows}
    assert listed == dict(commands(make_parser()))


@pytest.mark.parametrize(
    "path", sorted(DECISIONS.glob("[0-9]*.md")), ids=lambda path: str(path.name)
)
def test_a_decision_has_its_parts_and_fits_a_page(path: Path) -> None:
    text = path.read_text(encoding="utf-8")
    assert tuple(re.findall(r"^## (.*)$", text, re.MULTILINE)) == PARTS
    assert len(text.splitlines()) <= MAX_LINES
    assert f"({path.name})" in (DECISIONS / "README.md").read_text(encoding="utf-8")


@pytest.mark.parametrize(
    "line", ["git clone ", "make start", "`make test`", "uv tool install .", "pipx install ."]
)
def test_the_readme_says_how_to_begin(line: str) -> None:
    text = (ROOT / "README.md").read_text(encoding="utf-8")
    start = text.partition("\n## Start\n")[2].partition("\n## ")[0]
    assert line in start
