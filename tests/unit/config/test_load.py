"""The file, the environment and the first start together."""

import json
import re
from pathlib import Path

import pytest

from skerry.config.backup import LAST_GOOD, copy_path, keep_good
from skerry.config.load import TokenSource, load, load_good, locate, prepare
from skerry.model.errors import ConfigError, ConfigInvalidError
from skerry.model.ids import AgentId

TOKEN = "t" * 48


@pytest.fixture
def environ(tmp_path: Path) -> dict[str, str]:
    return {"SKERRY_STATE_DIR": str(tmp_path / "state")}


def written(environ: dict[str, str], text: str, mode: int = 0o600) -> Path:
    file = Path(environ["SKERRY_STATE_DIR"]) / "skerry.json"
    file.parent.mkdir(mode=0o700, exist_ok=True)
    file.write_text(text)
    file.chmod(mode)
    return file


@pytest.mark.requirement("config-file-location")
def test_the_file_is_skerry_json_in_the_state_directory_of_the_home() -> None:
    state, path = locate({"HOME": "/home/ada"})
    assert (str(state), str(path)) == ("/home/ada/.skerry", "/home/ada/.skerry/skerry.json")


@pytest.mark.requirement("config-file-location")
def test_the_environment_moves_the_directory_and_the_file() -> None:
    assert locate({"SKERRY_STATE_DIR": "/s"})[1] == Path("/s/skerry.json")
    assert locate({"SKERRY_STATE_DIR": "/s", "SKERRY_CONFIG_PATH": "/c.json"}) == (
        Path("/s"),
        Path("/c.json"),
    )
    assert locate({"HOME": "/h", "SKERRY_CONFIG_PATH": "~/c.json"})[1] == Path("/h/c.json")


def test_loading_writes_nothing(environ: dict[str, str], tmp_path: Path) -> None:
    assert load(environ).token_source is TokenSource.NONE
    assert list(tmp_path.iterdir()) == []


def test_the_first_start_writes_a_token_that_only_the_owner_can_read(
    environ: dict[str, str],
) -> None:
    loaded = prepare(environ)
    file = loaded.config.path
    token = loaded.config.gateway.auth.token
    assert token is not None
    assert re.fullmatch("[0-9a-f]{48}", token.get_secret_value())
    assert file.stat().st_mode & 0o777 == 0o600
    assert file.parent.stat().st_mode & 0o777 == 0o700
    assert [path.name for path in file.parent.iterdir() if path.is_file()] == ["skerry.json"]
    assert (loaded.warnings, loaded.token_source) == ((), TokenSource.FILE)


def test_a_later_start_keeps_the_token(environ: dict[str, str]) -> None:
    first, second = prepare(environ), prepare(environ)
    assert first.config.gateway.auth.token == second.config.gateway.auth.token


def test_the_token_is_added_to_a_file_that_has_none(environ: dict[str, str]) -> None:
    file = written(environ, '{"agents": {}, "gateway": {"port": 1}}')
    prepare(environ)
    assert list(load(environ).source.parsed) == ["agents", "gateway", "meta"]
    assert (file.with_name("skerry.json.bak")).read_text().startswith('{"agents"')


def test_a_file_with_comments_gets_its_token_and_keeps_them(environ: dict[str, str]) -> None:
    file = written(environ, "{ gateway: { port: 1 } /* mine */ } // end")
    assert prepare(environ).config.gateway.auth.token
    text = file.read_text()
    assert text.startswith("{ gateway: { port: 1, auth: {token: ")
    assert "/* mine */" in text
    assert text.endswith("} // end")


def test_mode_none_needs_no_token_and_says_what_it_opens(environ: dict[str, str]) -> None:
    written(environ, '{"gateway": {"auth": {"mode": "none"}}}')
    loaded = prepare(environ)
    assert loaded.config.gateway.auth.token is None
    assert "every program and web page" in loaded.warnings[0].message


@pytest.mark.requirement("wire-auth-token-match")
@pytest.mark.parametrize("name", ["SKERRY_GATEWAY_TOKEN", "OPENCLAW_GATEWAY_TOKEN"])
def test_a_token_of_the_environment_overrides_the_file(environ: dict[str, str], name: str) -> None:
    written(environ, '{"gateway": {"auth": {"mode": "none", "token": "of-the-file"}}}')
    loaded = load(environ | {name: TOKEN})
    auth = loaded.config.gateway.auth
    assert auth.token is not None
    assert (auth.token.get_secret_value(), auth.mode) == (TOKEN, "token")
    assert loaded.token_source is TokenSource.ENVIRONMENT


def test_of_two_tokens_of_the_environment_ours_wins(environ: dict[str, str]) -> None:
    both = {"OPENCLAW_GATEWAY_TOKEN": "o" * 48, "SKERRY_GATEWAY_TOKEN": TOKEN}
    token = load(environ | both).config.gateway.auth.token
    assert token is not None
    assert token.get_secret_value() == TOKEN


def test_an_empty_variable_counts_as_absent(environ: dict[str, str]) -> None:
    loaded = load(environ | {"SKERRY_GATEWAY_TOKEN": " ", "SKERRY_GATEWAY_PORT": ""})
    assert (loaded.token_source, loaded.config.gateway.port) == (TokenSource.NONE, 18789)


def test_the_environment_names_the_port(environ: dict[str, str]) -> None:
    written(environ, '{"gateway": {"port": 1}}')
    assert load(environ | {"SKERRY_GATEWAY_PORT": "7"}).config.gateway.port == 7


def test_a_wrong_port_of_the_environment_is_named_beside_the_file_s_errors(
    environ: dict[str, str],
) -> None:
    written(environ, '{"approvals": {}}')
    with pytest.raises(ConfigInvalidError) as caught:
        load(environ | {"SKERRY_GATEWAY_PORT": "http"})
    assert [issue.path for issue in caught.value.issues] == ["approvals", "SKERRY_GATEWAY_PORT"]


@pytest.mark.parametrize(
    "text", ['{"gateway": 5}', '{"gateway": {"auth": 5}}', '{"gateway": null}']
)
def test_the_environment_does_not_hide_a_wrong_shape(environ: dict[str, str], text: str) -> None:
    written(environ, text)
    with pytest.raises(ConfigInvalidError):
        load(environ | {"SKERRY_GATEWAY_PORT": "7", "SKERRY_GATEWAY_TOKEN": TOKEN})


@pytest.mark.parametrize(
    ("text", "mode", "warned"),
    [
        pytest.param('{"gateway": {"auth": {"token": "' + TOKEN + '"}}}', 0o644, True, id="token"),
        pytest.param(
            '{"models": {"providers": {"p": {"baseUrl": "http://h/v1", "apiKey": "k"}}}}',
            0o640,
            True,
            id="key",
        ),
        pytest.param('{"gateway": {"port": 1}}', 0o644, False, id="no secret"),
        pytest.param('{"gateway": {"auth": {"token": "' + TOKEN + '"}}}', 0o600, False, id="0600"),
    ],
)
def test_a_file_with_secrets_that_others_can_read_is_warned_about(
    environ: dict[str, str], text: str, mode: int, *, warned: bool
) -> None:
    file = written(environ, text, mode)
    remedies = [issue.remedy for issue in load(environ).warnings]
    assert (f"Run: chmod 600 {file}" in remedies) is warned


def test_a_state_directory_open_to_others_is_warned_about(environ: dict[str, str]) -> None:
    file = written(environ, "{}")
    file.parent.chmod(0o755)
    assert load(environ).warnings[0].remedy == f"Run: chmod 700 {file.parent}"


def test_a_short_token_is_warned_about(environ: dict[str, str]) -> None:
    assert (
        load(environ | {"SKERRY_GATEWAY_TOKEN": "short"}).warnings[0].path == "gateway.auth.token"
    )


def test_a_state_directory_that_cannot_be_made_is_an_error_with_a_remedy(tmp_path: Path) -> None:
    (tmp_path / "file").touch()
    with pytest.raises(ConfigError) as caught:
        prepare({"SKERRY_STATE_DIR": str(tmp_path / "file" / "state")})
    assert "SKERRY_STATE_DIR" in caught.value.remedy


def test_no_secret_is_in_the_printed_configuration(
    environ: dict[str, str],
) -> None:
    written(environ, '{"gateway": {"auth": {"token": "' + TOKEN + '"}}}')
    assert TOKEN not in repr(load(environ))


@pytest.fixture
def broken(environ: dict[str, str]) -> dict[str, str]:
    """A home whose file was good at the last start, and is broken now."""
    file = written(environ, '{"gateway": {"port": 7, "auth": {"token": "%s"}}}' % ("t" * 30))
    loaded = load(environ)
    keep_good(loaded.source, loaded.expanded)
    file.write_text("{broken")
    return environ


def test_where_the_file_is_broken_the_last_good_one_counts_and_says_so(
    broken: dict[str, str],
) -> None:
    loaded = load_good(broken)
    assert loaded.config.gateway.port == 7
    assert "line 1" in str(loaded.broken)
    assert prepare(broken).broken is not None
    assert Path(broken["SKERRY_STATE_DIR"], "skerry.json").read_text() == "{broken"


def test_who_wants_a_broken_file_to_stop_the_start_says_so(broken: dict[str, str]) -> None:
    with pytest.raises(ConfigInvalidError):
        load_good(broken | {"SKERRY_STRICT_CONFIG": "1"})


def test_a_broken_file_without_a_good_one_is_refused(environ: dict[str, str]) -> None:
    file = written(environ, '{"gateway": {"prot": 7}}')
    with pytest.raises(ConfigInvalidError, match="prot"):
        load_good(environ)
    copy_path(file, LAST_GOOD).write_text("{also broken")
    with pytest.raises(ConfigInvalidError, match="prot"):
        load_good(environ)


def test_the_good_one_is_whole_without_the_files_it_included(environ: dict[str, str]) -> None:
    file = written(environ, "{}")
    more = file.parent / "m.json"
    more.write_text('{"queue": {"mode": "steer"}}')
    file.write_text('{"messages": {"$include": "m.json"}, "note": "${NOTE}"}')
    environ["NOTE"] = "secret-note"
    loaded = load(environ)
    keep_good(loaded.source, loaded.expanded)
    good = copy_path(file, LAST_GOOD)
    assert json.loads(good.read_text()) == {
        "messages": {"queue": {"mode": "steer"}},
        "note": "${NOTE}",
    }
    assert good.stat().st_mode & 0o777 == 0o600
    more.unlink()
    found = load_good(environ)
    assert found.config.messages.queue.mode == "steer"
    assert "m.json" in str(found.broken)


def test_variables_of_the_file_count_where_the_environment_has_none(
    environ: dict[str, str],
) -> None:
    written(
        environ,
        '{"env": {"vars": {"A": "file", "B": "file"}, "C_API_KEY": "${B}x"},'
        ' "note": "${A} ${B} ${C_API_KEY}"}',
    )
    loaded = load(environ | {"B": "outside"})
    assert loaded.config.model_extra == {"note": "file outside outsidex"}
    assert loaded.expanded.environ["C_API_KEY"] == "outsidex"


@pytest.mark.abuse(71)
def test_files_that_set_an_environment_elsewhere_are_not_read(
    environ: dict[str, str], monkeypatch: pytest.MonkeyPatch
) -> None:
    state = Path(environ["SKERRY_STATE_DIR"])
    workspace = load(environ).config.workspace(AgentId("main"))
    for folder in (state, workspace, workspace / "inner"):
        folder.mkdir(parents=True, exist_ok=True)
        (folder / ".env").write_text("OPENAI_API_KEY=sk-evil\nSKERRY_GATEWAY_PORT=1\n")
        (folder / ".npmrc").write_text("registry=http://evil.example\n")
        monkeypatch.chdir(folder)
        loaded = load(environ)
        assert "OPENAI_API_KEY" not in loaded.expanded.environ
        assert loaded.config.gateway.port != 1


@pytest.mark.parametrize("name", ["PATH", "LD_PRELOAD", "PYTHONPATH", "SKERRY_STATE_DIR", "lower"])
def test_a_variable_that_says_which_code_runs_is_refused(
    environ: dict[str, str], name: str
) -> None:
    written(environ, json.dumps({"env": {"vars": {name: "x"}}}))
    with pytest.raises(ConfigInvalidError, match="may not be set here"):
        load(environ)


def test_a_reference_that_names_nothing_is_an_error_with_its_place(
    environ: dict[str, str],
) -> None:
    written(environ, '{"agents": {"list": [{"id": "a", "name": "x ${NOBODY}"}]}}')
    with pytest.raises(ConfigInvalidError) as caught:
        load(environ | {"NOBODY": ""})
    (issue,) = caught.value.issues
    assert issue.path == "agents.list[0].name"
    assert issue.message == "the variable NOBODY is missing or empty."
    assert "env.vars" in issue.remedy
