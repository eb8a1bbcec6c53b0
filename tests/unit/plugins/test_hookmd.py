"""The contents of HOOK.md, and the requirements of a hook."""

from pathlib import Path

import pytest
from hypothesis import given
from hypothesis import strategies as st

from skerry.config.root import Config
from skerry.hooks.hooks import Hooks
from skerry.model.errors import PluginError
from skerry.plugins.hookmd import EVENTS, declared
from skerry.workspace.front_matter import Metadata, Requires, missing

OTHERS = """---
name: session-notes
description: "Save it when /new comes"
homepage: https://example.org/hooks
metadata:
  {
    "openclaw":
      {
        "emoji": "💾",
        "events": ["command:new"],  // as other gateways write it
        "export": "default",
        "requires": { "config": ["workspace.dir"], "anyBins": ["sh"] },
        "install": [{ "id": "bundled" }],
      },
  }
---

# Notes
"""


def config(home: Path) -> Config:
    return Config(state_dir=home, path=home / "skerry.json")


def test_a_file_of_another_gateway_is_understood() -> None:
    declared_hook = declared(OTHERS, "folder")
    assert (declared_hook.name, declared_hook.description) == (
        "session-notes",
        "Save it when /new comes",
    )
    assert declared_hook.homepage == "https://example.org/hooks"
    assert declared_hook.about.events == ("command:new",)
    assert (declared_hook.about.export, declared_hook.about.emoji) == ("handle", "💾")


def test_without_a_name_it_is_called_as_its_folder() -> None:
    text = '---\nmetadata: {"skerry": {"events": ["command"]}}\n---\n'
    assert declared(text, "greet").name == "greet"


@pytest.mark.parametrize(
    ("text", "why"),
    [
        ("# Hook", "front matter"),
        ("---\nname: x\n---\n", "no event"),
        ('---\nmetadata: {"openclaw": {"events": ["command:old"]}}\n---\n', "'command:old'"),
        ("---\nmetadata: {events\n---\n", "JSON"),
        ('---\nmetadata: {"openclaw": {"events": 7}}\n---\n', "metadata.events"),
        ('---\nmetadata: {"events": ["command"], "export": "a.b"}\n---\n', "metadata.export"),
    ],
)
def test_what_cannot_be_understood_says_why(text: str, why: str) -> None:
    with pytest.raises(PluginError, match=why):
        declared(text, "x")


@given(st.text())
def test_any_text_is_understood_or_refused(text: str) -> None:
    try:
        declared_hook = declared(f"---\n{text}\n---\n", "x")
    except PluginError:
        return
    assert set(declared_hook.about.events) <= EVENTS.keys()


def test_every_event_has_a_point() -> None:
    assert set(EVENTS.values()) <= Hooks().points.keys()


def test_what_is_not_there_is_named(tmp_path: Path) -> None:
    needs = Requires(
        bins=("sh", "no-such-program"),
        anyBins=("nor-this", "nor-that"),
        env=("SET", "UNSET"),
        config=("gateway.port", "gateway.nothing", "["),
    )
    about = Metadata(requires=needs, os=("plan9",))
    assert missing(about, config(tmp_path), {"SET": "1"}) == [
        "the program no-such-program",
        "one of the programs nor-this, nor-that",
        "the variable UNSET",
        "the setting gateway.nothing",
        "the setting [",
        "the system plan9",
    ]
    assert missing(about.model_copy(update={"always": True}), config(tmp_path), {}) == []
    there = Metadata(requires=Requires(bins=("sh",)), os=("linux", "darwin", "win32"))
    assert missing(there, config(tmp_path), {}) == []
