"""How an agent shows itself: the configuration, then its IDENTITY.md."""

from hashlib import sha256
from pathlib import Path

import pytest
from hypothesis import given
from hypothesis import strategies as st

from skerry.config.agents import AgentConfig, AgentsConfig, IdentityConfig
from skerry.config.root import Config
from skerry.model.ids import AgentId
from skerry.model.origin import Origin
from skerry.policy.file_records import FileRecord, FileRecords
from skerry.workspace.identity import MAX_AVATAR, identity, parsed, picture

MAIN = AgentId("main")
SEED = """---
name: Logic
emoji: 🤖
creature: AI assistant
vibe: sharp, precise
theme: dark
avatar: ./avatar.png
---
"""
EXPECTED = {
    "name": "Logic",
    "emoji": "🤖",
    "creature": "AI assistant",
    "vibe": "sharp, precise",
    "theme": "dark",
    "avatar": "./avatar.png",
}
PNG = b"\x89PNG\r\n\x1a\n" + b"\0" * 8


def config(home: Path, *agents: AgentConfig) -> Config:
    return Config(state_dir=home, path=home / "skerry.json", agents=AgentsConfig(list=agents))


@pytest.mark.requirement("identity-md-front-matter")
def test_the_front_matter_of_identity_md_is_the_identity(tmp_path: Path) -> None:
    (tmp_path / "workspace").mkdir()
    (tmp_path / "workspace" / "IDENTITY.md").write_text(SEED, encoding="utf-8")
    assert identity(config(tmp_path), MAIN, FileRecords()) == EXPECTED


def test_a_copy_of_what_a_tainted_run_wrote_names_nobody(tmp_path: Path) -> None:
    (tmp_path / "workspace").mkdir()
    (tmp_path / "workspace" / "IDENTITY.md").write_text(SEED, encoding="utf-8")
    data = SEED.encode()
    copy = FileRecord("/x", sha256(data).digest(), len(data), "main", frozenset({Origin.WEB}))
    assert identity(config(tmp_path), MAIN, FileRecords([copy])) == {}


def test_a_list_says_it_too_as_other_gateways_write_it() -> None:
    text = "# Who\n\n- **Name:** Logic\n- **Emoji:** 🤖\n- **Vibe:** _(sharp?)_\n- Theme: dark\n"
    assert parsed(text) == {"name": "Logic", "emoji": "🤖", "theme": "dark"}


def test_what_is_empty_unknown_too_long_or_behind_the_front_matter_is_left_out() -> None:
    text = f"---\nname:\nemoji: '🐦'\ncolour: red\nvibe: {'x' * 501}\n---\ntheme: dark\n"
    assert parsed(text) == {"emoji": "🐦"}


@given(st.text())
def test_any_text_says_something_of_known_keys_or_nothing(text: str) -> None:
    values = parsed(text)
    assert values.keys() <= EXPECTED.keys()
    assert all(values.values())


@pytest.mark.requirement("config-agent-identity")
def test_the_configuration_wins_key_by_key(tmp_path: Path) -> None:
    (tmp_path / "workspace").mkdir()
    (tmp_path / "workspace" / "IDENTITY.md").write_text(SEED, encoding="utf-8")
    identity_config = {
        "name": "Wren",
        "vibe": "calm",
        "creature": "bird",
        "avatar": "W",
        "emoji": "🐦",
    }
    full = AgentConfig(
        id=MAIN, name="Named", identity=IdentityConfig.model_validate(identity_config)
    )
    assert identity(config(tmp_path, full), MAIN, FileRecords()) == {
        **identity_config,
        "theme": "dark",
    }
    named = AgentConfig(id=MAIN, name="Named")
    assert identity(config(tmp_path, named), MAIN, FileRecords())["name"] == "Named"


def test_a_picture_of_the_workspace_is_shown_and_nothing_else(tmp_path: Path) -> None:
    workspace = tmp_path / "workspace"
    workspace.mkdir()
    (workspace / "a.png").write_bytes(PNG)
    (workspace / "b.png").write_bytes(b"<svg>")
    (workspace / "c.png").write_bytes(PNG + b"\0" * MAX_AVATAR)
    (tmp_path / "d.png").write_bytes(PNG)
    (workspace / "e.png").symlink_to(tmp_path / "d.png")
    url = picture(workspace, "./a.png")
    assert url is not None
    assert url.startswith("data:image/png;base64,iVBORw0KGgo")
    for name in ("b.png", "c.png", "../d.png", "e.png", "none.png", "https://x.org/a.png", "🐦"):
        assert picture(workspace, name) is None
