"""The subset of YAML in front matter."""

import pytest

from skerry.workspace.block_yaml import BlockYamlError, parse_block_yaml

METADATA = """
openclaw:
  emoji: "🐙"   # shown to people
  requires:
    bins: [gh, 'jq']
    env:
      - GITHUB_TOKEN
  install:
    - kind: brew
      formula: gh
      bins: [gh]
    - kind: apt
      package: gh
  homepage: https://example.com/a#b
author: somebody
tags:
- one
- two
empty:
none: []
"""


def test_nested_keys_lists_and_texts_are_read() -> None:
    assert parse_block_yaml(METADATA) == {
        "openclaw": {
            "emoji": "🐙",
            "requires": {"bins": ["gh", "jq"], "env": ["GITHUB_TOKEN"]},
            "install": [
                {"kind": "brew", "formula": "gh", "bins": ["gh"]},
                {"kind": "apt", "package": "gh"},
            ],
            "homepage": "https://example.com/a#b",
        },
        "author": "somebody",
        "tags": ["one", "two"],
        "empty": "",
        "none": [],
    }
    assert parse_block_yaml("# nothing\n") is None
    assert parse_block_yaml("- a\n-\n  b: c\n- - x") == ["a", {"b": "c"}, "- x"]


@pytest.mark.parametrize(
    "text",
    [
        "a: &anchor b",
        "a: *anchor",
        "a: !!python/object x",
        "a: |\n  text",
        "a: {b: c}",
        "a: [b",
        "a: [b, [c]]",
        "a: b\na: c",
        "a:\n  b: c\n d: e",
        "no key",
        "a: b\n  c: d",
        "\n".join(f"{' ' * depth}k:" for depth in range(30)),
    ],
)
def test_anything_else_is_refused(text: str) -> None:
    with pytest.raises(BlockYamlError):
        parse_block_yaml(text)
