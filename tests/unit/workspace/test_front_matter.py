"""Front matter as skills of registries write it."""

from pathlib import Path

import pytest

from skerry.model.errors import PluginError
from skerry.model.skill import InstallSpec, Tier
from skerry.workspace.front_matter import front_matter
from skerry.workspace.skill_md import parsed

NESTED = """---
name: todo
description: >
  Manage tasks
  of a list.
metadata:
  author: somebody
  openclaw:
    always: true
    requires:
      bins: [curl]
    install:
      - kind: download
        url: https://example.com/x.tgz
        stripComponents: 1
---
"""


def test_metadata_may_be_nested_keys() -> None:
    skill = parsed(NESTED, Path("todo"), Tier.MANAGED)
    assert skill.description == "Manage tasks of a list."
    assert (skill.is_always, dict(skill.requires)["bins"]) == (True, ("curl",))
    url = "https://example.com/x.tgz"
    assert skill.install == (InstallSpec("download", "download-0", url=url, strip_components=1),)


def test_a_text_below_its_key_keeps_or_joins_its_lines() -> None:
    text = "---\na: |\n  one\n    two\n\nb: >-\n  one\n  two\nc: one\n  two\nd:\n---\n"
    assert front_matter(text, "x") == {"a": "one\n  two", "b": "one two", "c": "one\ntwo", "d": ""}


def test_metadata_that_cannot_be_read_names_its_line() -> None:
    text = NESTED.replace("always: true", "always: *x")
    with pytest.raises(PluginError, match=r"line 3 \('always: \*x'\) has a value of an unknown"):
        parsed(text, Path("todo"), Tier.MANAGED)


@pytest.mark.requirement("skills-metadata")
def test_the_key_openclaw_of_the_metadata_has_the_extensions() -> None:
    about = (
        '{"openclaw": {"emoji": "🧾", "always": true, "os": ["linux"], "requires": {"bins": ["jq"],'
        ' "env": ["KEY"]}, "install": [{"kind": "apt", "package": "jq", "bins": ["jq"]}]}}'
    )
    text = f"---\nname: tea\ndescription: Makes tea.\nmetadata: {about}\n---\n"
    skill = parsed(text, Path("tea"), Tier.MANAGED)
    needs = dict(skill.requires)
    assert (skill.emoji, skill.is_always, needs["os"]) == ("🧾", True, ("linux",))
    assert (needs["bins"], needs["env"]) == (("jq",), ("KEY",))
    assert skill.install == (InstallSpec("apt", "apt-0", package="jq", bins=("jq",)),)
