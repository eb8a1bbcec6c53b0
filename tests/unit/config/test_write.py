"""Changes of values keep the comments and the layout of a person."""

import json
import os
import threading
from pathlib import Path
from typing import Any

import pytest

from skerry import __version__
from skerry.config.backup import BACKUPS, copy_path
from skerry.config.source import MAX_BYTES
from skerry.config.write import ConfigAuthor, set_values, write_text
from skerry.model.errors import (
    ConfigError,
    ConfigIncludedError,
    ConfigInvalidError,
    ConfigRewriteError,
)
from skerry.testing.clock import FakeClock


def stored_fields(file: Path) -> dict[str, Any]:
    """Returns the fields of the file without the stamp of its writer."""
    tree: dict[str, Any] = json.loads(file.read_text())
    tree.pop("meta")
    return tree


KEY = "models.providers.openai"


@pytest.fixture
def file(tmp_path: Path) -> Path:
    return tmp_path / "skerry.json"


def test_values_are_set_and_everything_else_keeps_its_place(file: Path) -> None:
    file.write_text('{"messages": {}, "gateway": {"port": 1}, "agents": {"note": "é"}}')
    set_values(file, {"gateway.bind": "loopback", "agents.defaults.model.primary": "a/b"})
    assert list(json.loads(file.read_text())) == ["messages", "gateway", "agents", "meta"]
    assert stored_fields(file) == {
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
    assert {path.stat().st_mode & 0o777 for path in (file, before)} == {0o600}
    names = {path.name for path in file.parent.iterdir()}
    assert names == {"skerry.json", "skerry.json.bak", "logs"}


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
    assert [path.name for path in file.parent.iterdir()] == ["skerry.json"]


def test_what_no_edit_can_say_is_left_and_named_without_its_secret(file: Path) -> None:
    text = "{note: NaN, gateway: {port: 1}}"  # what equals not even itself cannot be compared
    file.write_text(text)
    changes = {"gateway": None, f"{KEY}.baseUrl": "https://h/v1", f"{KEY}.apiKey": "sk-canary"}
    with pytest.raises(ConfigRewriteError) as caught:
        set_values(file, changes)
    addition = '{"models": {"providers": {"openai": {"baseUrl": "https://h/v1", '
    assert addition in caught.value.remedy
    assert '"apiKey": "<your secret>"' in caught.value.remedy
    assert "Remove gateway." in caught.value.remedy
    assert "canary" not in str(caught.value) + caught.value.remedy
    assert file.read_text() == text


def test_any_element_of_a_list_can_be_changed(file: Path) -> None:
    file.write_text('{"agents": {"list": [{"id": "a"}, {"id": "b"}]}}')
    set_values(file, {"agents.list[1].name": "Bea"})
    assert json.loads(file.read_text())["agents"]["list"] == [
        {"id": "a"},
        {"id": "b", "name": "Bea"},
    ]


def test_a_value_where_a_section_is_needed_is_named(file: Path) -> None:
    file.write_text('{"gateway": 5}')
    with pytest.raises(ConfigInvalidError, match="not a section"):
        set_values(file, {"gateway.port": 1})


def test_a_link_is_followed_not_replaced(tmp_path: Path) -> None:
    target = tmp_path / "real.json"
    target.write_text("{}")
    link = tmp_path / "skerry.json"
    link.symlink_to(target)
    set_values(link, {"gateway.port": 5})
    assert link.is_symlink()
    assert stored_fields(target) == {"gateway": {"port": 5}}


def test_writers_wait_for_each_other(file: Path) -> None:
    file.write_text("{}")
    changes = [{f"models.providers.p{n}": {"baseUrl": "http://h/v1"}} for n in range(8)]
    writers = [threading.Thread(target=set_values, args=(file, change)) for change in changes]
    for writer in writers:
        writer.start()
    for writer in writers:
        writer.join(60)
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
    assert stored_fields(file) == {"agents": {"defaults": {"model": after, "timeoutSeconds": 5}}}


def test_the_file_says_which_version_wrote_it_and_when(file: Path) -> None:
    file.write_text('{"meta": {"mine": 1}}')
    set_values(file, {"gateway.port": 5}, author=ConfigAuthor(clock=FakeClock(0)))
    assert json.loads(file.read_text())["meta"] == {
        "mine": 1,
        "lastTouchedVersion": __version__,
        "lastTouchedAt": "1970-01-01T00:00:00.000Z",
    }


def test_five_files_before_are_kept_and_the_sixth_goes(file: Path) -> None:
    for port in range(1, 9):
        set_values(file, {"gateway.port": port})
    kept = [
        json.loads(copy_path(file, backup).read_text())["gateway"]["port"] for backup in BACKUPS
    ]
    assert kept == [7, 6, 5, 4, 3]
    assert {copy_path(file, backup).stat().st_mode & 0o777 for backup in BACKUPS} == {0o600}
    assert len([path for path in file.parent.iterdir() if ".bak" in path.name]) == 5


def test_each_write_leaves_a_line_without_a_value(file: Path) -> None:
    set_values(file, {"gateway.port": 1})
    set_values(file, {f"{KEY}.baseUrl": "https://h/v1", f"{KEY}.apiKey": "sk-canary"})
    text = (file.parent / "logs" / "config-audit.jsonl").read_text()
    first, second = map(json.loads, text.splitlines())
    assert (first["previousHash"], first["changedPaths"]) == (None, ["gateway.port"])
    assert second["previousHash"] == first["nextHash"]
    assert second["changedPaths"] == [f"{KEY}.baseUrl", f"{KEY}.apiKey"]
    assert second["nextBytes"] == file.stat().st_size
    assert "canary" not in text


def test_a_file_that_loses_half_of_itself_is_marked(file: Path) -> None:
    file.write_text(json.dumps({"note": "x" * 600}))
    set_values(file, {"note": None})
    line = json.loads((file.parent / "logs" / "config-audit.jsonl").read_text())
    assert line["suspicious"][0].startswith("size-drop:")


def test_a_reference_stays_where_its_value_is_set_again(file: Path) -> None:
    file.write_text('{"gateway": {"auth": {"token": "${GT}"}, "port": 1}}')
    author = ConfigAuthor(environ={"GT": "g" * 30})
    set_values(file, {"gateway.auth.token": "g" * 30, "gateway.port": 2}, author=author)
    assert stored_fields(file) == {"gateway": {"auth": {"token": "${GT}"}, "port": 2}}
    set_values(file, {"gateway.auth.token": "h" * 30}, author=author)
    assert stored_fields(file)["gateway"]["auth"] == {"token": "h" * 30}


def test_a_new_reference_that_names_nothing_is_refused_an_old_one_is_not(file: Path) -> None:
    file.write_text('{"gateway": {"auth": {"token": "${GONE}"}}}')
    set_values(file, {"gateway.port": 2})
    with pytest.raises(ConfigInvalidError, match="NOWHERE is missing"):
        set_values(file, {f"{KEY}.baseUrl": "https://h/v1", f"{KEY}.apiKey": "${NOWHERE}"})


@pytest.fixture
def including(file: Path) -> Path:
    (file.parent / "more.json").write_text('{"queue": {"mode": "steer", "x": [1]}}')
    file.write_text('{"messages": {"$include": "more.json"}}')
    return file


def test_a_value_is_written_over_what_is_included(including: Path) -> None:
    set_values(including, {"messages.queue.mode": "followup"})
    assert stored_fields(including) == {
        "messages": {"$include": "more.json", "queue": {"mode": "followup"}}
    }


@pytest.mark.parametrize("value", [None, [2]], ids=["removed", "a list, which would join"])
def test_what_only_the_included_file_can_say_is_refused_with_its_name(
    including: Path, value: Any
) -> None:
    before = including.read_text()
    with pytest.raises(ConfigIncludedError) as caught:
        set_values(including, {"messages.queue.x": value})
    assert "messages.queue.x is set in" in str(caught.value)
    assert "more.json" in caught.value.remedy
    assert including.read_text() == before


def test_a_text_is_written_as_it_is_once_it_passes(file: Path) -> None:
    text = "// mine\n{gateway: {port: 5}}\n"
    assert write_text(file, text, ConfigAuthor()).changed == (("gateway", "port"),)
    assert file.read_text() == text
    with pytest.raises(ConfigInvalidError):
        write_text(file, "{gateway: {prt: 5}}", ConfigAuthor())
    assert file.read_text() == text


def test_a_broken_file_can_be_replaced_by_a_whole_text_only(file: Path) -> None:
    file.write_text("{broken")
    with pytest.raises(ConfigInvalidError):
        set_values(file, {"gateway.port": 1})
    write_text(file, "{}", ConfigAuthor())
    assert (file.read_text(), copy_path(file, ".bak").read_text()) == ("{}", "{broken")


def test_a_text_made_of_another_file_is_refused(file: Path) -> None:
    file.write_text("{}")
    with pytest.raises(ConfigError, match="changed meanwhile"):
        write_text(file, "{ }", ConfigAuthor(), base="0" * 64)


def test_what_is_no_text_is_refused_before_anything_moves(file: Path) -> None:
    file.write_text("{}")
    with pytest.raises(ConfigInvalidError, match="cannot be encoded as UTF-8"):
        set_values(file, {"agents.defaults.model": "a/\udcff"})
    with pytest.raises(ConfigInvalidError):
        write_text(file, '{"wizard": {"a": "\udcff"}}', ConfigAuthor())
    assert [path.name for path in file.parent.iterdir()] == ["skerry.json"]


def test_a_file_that_could_not_be_read_again_is_not_written(file: Path) -> None:
    file.write_text("{}")
    with pytest.raises(ConfigInvalidError, match="larger than"):
        set_values(file, {"wizard.a": "x" * MAX_BYTES})
    assert file.read_text() == "{}"


def test_a_pipe_in_the_place_of_the_file_is_refused_and_not_waited_for(file: Path) -> None:
    os.mkfifo(file)
    with pytest.raises(ConfigInvalidError, match="not a plain file"):
        write_text(file, "{}", ConfigAuthor())


def test_a_file_that_is_not_utf_8_is_kept_byte_by_byte_when_it_is_replaced(tmp_path: Path) -> None:
    file = tmp_path / "skerry.json"
    file.write_bytes(b'{"a": "\xff\xfe"}')
    write_text(file, "{}", ConfigAuthor())
    assert (tmp_path / "skerry.json.bak").read_bytes() == b'{"a": "\xff\xfe"}'
