"""Changing values without losing what a person wrote."""

import json
import threading
from pathlib import Path

import pytest

from skerry.config.write import set_values
from skerry.model.errors import ConfigError, ConfigInvalidError, ConfigRewriteError

KEY = "models.providers.openai"


@pytest.fixture
def file(tmp_path: Path) -> Path:
    return tmp_path / "skerry.json"


def test_values_are_set_and_everything_else_keeps_its_place(file: Path) -> None:
    file.write_text('{"messages": {}, "gateway": {"port": 1}, "agents": {"note": "é"}}')
    set_values(file, {"gateway.bind": "loopback", "agents.defaults.model.primary": "a/b"})
    assert list(json.loads(file.read_text())) == ["messages", "gateway", "agents"]
    assert json.loads(file.read_text()) == {
        "messages": {},
        "gateway": {"port": 1, "bind": "loopback"},
        "agents": {"note": "é", "defaults": {"model": {"primary": "a/b"}}},
    }


def test_the_copy_before_stays_beside_it_and_both_are_the_owner_s(file: Path) -> None:
    file.write_text('{"gateway": {"port": 1}}')
    file.chmod(0o644)
    set_values(file, {"gateway.port": 2})
    before = file.with_name("skerry.json.bak")
    assert before.read_text() == '{"gateway": {"port": 1}}'
    assert {one.stat().st_mode & 0o777 for one in (file, before)} == {0o600}
    assert {one.name for one in file.parent.iterdir()} == {"skerry.json", "skerry.json.bak"}


def test_none_removes_a_key(file: Path) -> None:
    file.write_text('{"gateway": {"port": 1, "bind": "loopback"}}')
    set_values(file, {"gateway.port": None, "agents.defaults.model.primary": None})
    assert json.loads(file.read_text())["gateway"] == {"bind": "loopback"}


def test_nothing_is_written_when_nothing_changes(file: Path) -> None:
    file.write_text("{'gateway': {port: 1}} // mine")
    set_values(file, {"gateway.port": 1})
    assert file.read_text() == "{'gateway': {port: 1}} // mine"


def test_a_result_that_breaks_a_rule_changes_nothing(file: Path) -> None:
    file.write_text('{"gateway": {"port": 1}}')
    with pytest.raises(ConfigInvalidError, match=r"gateway\.port"):
        set_values(file, {"gateway.port": 70_000, "agents.defaults.timeoutSeconds": 5})
    assert file.read_text() == '{"gateway": {"port": 1}}'
    assert [one.name for one in file.parent.iterdir()] == ["skerry.json"]


@pytest.mark.parametrize(
    "text",
    [
        pytest.param('{\n// mine\n"gateway": {}}', id="comment"),
        pytest.param("{gateway: {}}", id="bare key"),
        pytest.param('{"gateway": {},}', id="trailing comma"),
        pytest.param('{"gateway": {"port": 1}, "gateway": {}}', id="a key twice"),
    ],
)
def test_what_a_rewrite_would_lose_is_left_and_the_addition_named_without_its_secret(
    file: Path, text: str
) -> None:
    file.write_text(text)
    changes = {f"{KEY}.baseUrl": "https://h/v1", f"{KEY}.apiKey": "sk-canary"}
    with pytest.raises(ConfigRewriteError) as caught:
        set_values(file, changes)
    addition = '{"models": {"providers": {"openai": {"baseUrl": "https://h/v1", '
    assert addition in caught.value.remedy
    assert '"apiKey": "<your secret>"' in caught.value.remedy
    assert "canary" not in str(caught.value) + caught.value.remedy
    assert file.read_text() == text


def test_a_value_where_a_section_is_needed_is_named(file: Path) -> None:
    file.write_text('{"gateway": 5}')
    with pytest.raises(ConfigInvalidError, match="no section"):
        set_values(file, {"gateway.port": 1})


def test_a_link_is_followed_not_replaced(tmp_path: Path) -> None:
    target = tmp_path / "real.json"
    target.write_text("{}")
    link = tmp_path / "skerry.json"
    link.symlink_to(target)
    set_values(link, {"gateway.port": 5})
    assert link.is_symlink()
    assert json.loads(target.read_text()) == {"gateway": {"port": 5}}


def test_writers_wait_for_each_other(file: Path) -> None:
    file.write_text("{}")
    changes = [{f"models.providers.p{n}": {"baseUrl": "http://h/v1"}} for n in range(8)]
    writers = [threading.Thread(target=set_values, args=(file, one)) for one in changes]
    for writer in writers:
        writer.start()
    for writer in writers:
        writer.join(10)
    assert len(json.loads(file.read_text())["models"]["providers"]) == 8


def test_a_directory_that_is_not_there_is_an_error_with_a_remedy(tmp_path: Path) -> None:
    with pytest.raises(ConfigError) as caught:
        set_values(tmp_path / "none" / "skerry.json", {"gateway.port": 1})
    assert caught.value.remedy


@pytest.mark.parametrize(("value", "after"), [("b/c", {"primary": "b/c"}), (None, {})])
def test_the_short_form_of_a_section_is_written_out(
    file: Path, value: str | None, after: dict[str, str]
) -> None:
    file.write_text('{"agents": {"defaults": {"model": "a/b", "timeoutSeconds": 5}}}')
    set_values(file, {"agents.defaults.model.primary": value})
    assert json.loads(file.read_text()) == {
        "agents": {"defaults": {"model": after, "timeoutSeconds": 5}}
    }
