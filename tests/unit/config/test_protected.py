"""Which files are closed to tools, with a workspace in the state directory and around it."""

import sys
from pathlib import Path

import pytest
from hypothesis import given
from hypothesis import strategies as st

import skerry
from skerry.config.load import load
from skerry.config.protected import CLOSED, Protected, protected
from skerry.policy.file_kinds import LOADED

HOME = Path("/home/ada")
STATE = HOME / ".skerry"


def closed(*workspaces: Path, code: tuple[Path, ...] = ()) -> Protected:
    configuration = frozenset({STATE / "skerry.json", HOME / "shared.json5"})
    return Protected(STATE, configuration, frozenset(code), frozenset(workspaces))


INSIDE = closed(STATE / "workspace")
AROUND = closed(HOME, STATE / "workspace")


@pytest.mark.parametrize("path", ["a.md", "src/hooks/use.ts", "memory/x", "my/skills.md", ".gitx"])
def test_ordinary_files_of_a_workspace_are_open(path: str) -> None:
    for rules in (INSIDE, AROUND):
        assert rules.reading(STATE / "workspace" / path) is None
        assert rules.writing(STATE / "workspace" / path) is None


@pytest.mark.parametrize(
    "path",
    [
        "hooks/x/handler.py",
        "hooks",
        "Hooks/x",
        "plugins/a.py",
        "skills/a/SKILL.md",
        "\uff53kills/x",
        ".openclaw/a",
        "deep/.skerry/b",
        ".git/hooks/pre-commit",
        "deep/HOOK.md",
        "deep/hook.MD",
    ],
)
def test_where_code_is_loaded_from_may_be_read_and_not_written(path: str) -> None:
    file = STATE / "workspace" / path
    assert INSIDE.reading(file) is None
    assert INSIDE.writing(file) is not None


@pytest.mark.parametrize(
    "path",
    [
        ".skerry/skerry.json",
        ".skerry/skerry.json.bak.4",
        ".skerry/skerry.sqlite",
        ".SKERRY/device.pem",
        ".skerry/workspace-of-nobody/a",
        "shared.json5",
        "shared.json5.bak",
        ".shared.json5.0123.tmp",
        "Shared.JSON5",
    ],
)
def test_state_and_configuration_may_be_neither_read_nor_written(path: str) -> None:
    assert AROUND.reading(HOME / path) is not None
    assert AROUND.writing(HOME / path) is not None


def test_a_workspace_that_is_the_state_directory_opens_nothing() -> None:
    assert closed(STATE).reading(STATE / "skerry.sqlite") is not None


names = st.text(
    st.characters(exclude_characters="/\0", exclude_categories=["Cs"]), min_size=1, max_size=12
)
paths = st.lists(
    st.one_of(names, st.sampled_from([*LOADED, *CLOSED, "workspace", "HOOK.md", "skerry.json"])),
    min_size=1,
    max_size=5,
).map("/".join)


@given(paths, st.sampled_from([HOME, STATE, STATE / "workspace"]))
def test_what_may_not_be_read_may_not_be_written(path: str, below: Path) -> None:
    for rules in (INSIDE, AROUND):
        if rules.reading(below / path) is not None:
            assert rules.writing(below / path) is not None


@given(paths)
def test_a_further_workspace_opens_nothing_of_another_workspace(path: str) -> None:
    file = STATE / "workspace" / path
    if INSIDE.writing(file) is not None and not CLOSED.intersection(file.parts):
        assert AROUND.writing(file) is not None


@given(paths)
def test_nothing_opens_code(path: str) -> None:
    rules = closed(HOME, STATE / "workspace", code=(HOME / "plugins-of-mine",))
    assert rules.writing(HOME / "plugins-of-mine" / path) is not None


@given(paths, paths)
def test_outside_of_workspaces_the_state_is_closed(path: str, workspace: str) -> None:
    inner = STATE / "w" / workspace
    file = STATE / "x" / path
    assert closed(inner, HOME).reading(file) is not None


def test_it_follows_the_configuration(tmp_path: Path) -> None:
    tmp_path = tmp_path.resolve()
    state, home = tmp_path / "state", tmp_path / "home"
    state.mkdir()
    home.mkdir()
    (home / "part.json5").write_text('{plugins: {load: {paths: ["one.py", "/opt/two.py"]}}}')
    (home / "real.json5").write_text(
        '{$include: "part.json5", agents: {defaults: {workspace: "/w"}}}'
    )
    (home / "skerry.json").symlink_to("real.json5")
    config = load({}, state, home / "skerry.json").config
    rules = protected(config)
    for name in ("skerry.json", "real.json5", "part.json5", "real.json5.bak"):
        assert rules.reading(home / name) is not None, name
    for file in (home / "one.py", Path("/opt/two.py")):
        assert rules.writing(file) is not None
        assert rules.reading(file) is None
    assert rules.writing(Path(skerry.__file__)) is not None
    assert rules.writing(Path(sys.prefix).resolve() / "lib/x.py") is not None
    assert rules.writing(Path("/w/skills/x")) is not None
    assert rules.writing(home / "else.py") is None
