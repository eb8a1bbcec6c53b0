"""Manifests in both shapes, and settings that are compared with their schema."""

import json
from pathlib import Path
from typing import Any

import pytest

from skerry.model.errors import PluginError
from skerry.plugins.manifest import MAX_BYTES, Manifest, read_manifest
from skerry.plugins.requires import check_requires, check_settings

SCHEMA = {
    "type": "object",
    "additionalProperties": False,
    "required": ["kind", "cups"],
    "properties": {
        "kind": {"enum": ["green", "black"]},
        "cups": {"type": "integer", "minimum": 1, "maximum": 9},
        "name": {"type": "string", "pattern": "^[a-z]+$"},
        "tags": {"type": "array", "items": {"type": "string"}},
        "hot": {"type": "boolean"},
    },
}


def written(folder: Path, tree: object) -> Path:
    (folder / "openclaw.plugin.json").write_text(json.dumps(tree))
    return folder


@pytest.mark.requirement("plugin-manifest-file")
@pytest.mark.requirement("plugin-manifest-slots")
@pytest.mark.requirement("plugin-manifest-config")
def test_both_shapes_are_read(tmp_path: Path) -> None:
    theirs = read_manifest(
        written(tmp_path, {"id": "tea", "kind": "memory", "configSchema": SCHEMA, "cli": ["tea"]})
    )
    assert (theirs.id, theirs.slots, theirs.cli) == ("tea", ("memory",), ("tea",))
    assert theirs.config_schema == SCHEMA
    seeds = {
        "name": "tea",
        "version": "1.0.0",
        "author": "Ada",
        "slots": {"memory": True, "browser": False, "sandbox": True},
        "config": {"schema": SCHEMA},
        "requires": {"bins": ["sh"]},
    }
    other = read_manifest(written(tmp_path, seeds))
    assert (other.name, other.version, other.author) == ("tea", "1.0.0", "Ada")
    assert other.slots == ("memory", "sandbox")
    assert (other.config_schema, other.requires) == (SCHEMA, {"bins": ["sh"]})
    assert read_manifest(tmp_path / "nobody") == Manifest()


@pytest.mark.parametrize(
    "text", ["[]", "{", f'{{"name": "{"a" * MAX_BYTES}"}}'], ids=["list", "half", "large"]
)
def test_a_manifest_that_is_none_is_refused(tmp_path: Path, text: str) -> None:
    (tmp_path / "openclaw.plugin.json").write_text(text)
    with pytest.raises(PluginError, match=r"openclaw\.plugin\.json"):
        read_manifest(tmp_path)


@pytest.mark.requirement("plugin-validation")
def test_every_wrong_setting_is_named_at_once() -> None:
    fields: dict[str, Any] = {
        "kind": "red",
        "name": "A",
        "tags": ["a", 1],
        "hot": 1,
        "colour": "x",
    }
    with pytest.raises(PluginError) as caught:
        check_settings("tea", Manifest(config_schema=SCHEMA), fields)
    assert sorted(str(caught.value).removesuffix(".").split("; ")) == [
        "config.colour: is unknown",
        "config.cups: is required",
        "config.hot: must be a boolean",
        "config.kind: must be one of green, black",
        "config.name: must match ^[a-z]+$",
        "config.tags.1: must be a string",
    ]
    check_settings("tea", Manifest(config_schema=SCHEMA), {"kind": "green", "cups": 3})
    with pytest.raises(PluginError, match="between 1 and 9"):
        check_settings("tea", Manifest(config_schema=SCHEMA), {"kind": "green", "cups": 10})


@pytest.mark.requirement("plugin-manifest-requires")
def test_a_requirement_that_is_met_is_none() -> None:
    check_requires(
        Manifest(requires={"bins": ["sh"], "env": ["A"], "python": ">=3.11"}), {"A": "1"}
    )
    unmet = {"bins": ["sh", "no-such-program"], "env": ["A", "B"]}
    with pytest.raises(PluginError, match="the program no-such-program, the variable B"):
        check_requires(Manifest(requires=unmet), {"A": "1"})
    with pytest.raises(PluginError, match="Python >=99"):
        check_requires(Manifest(requires={"python": ">=99.0"}), {})
