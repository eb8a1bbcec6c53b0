"""Reading the text of the configuration file."""

import os
from pathlib import Path

import pytest

from skerry.config import source
from skerry.model.errors import ConfigInvalidError


@pytest.mark.requirement("config-file-location")
def test_the_file_may_have_comments_bare_keys_and_trailing_commas(tmp_path: Path) -> None:
    file = tmp_path / "skerry.json"
    file.write_text("{\n  // the port\n  gateway: {port: 1,},\n}\n")
    assert source.read(file).parsed == {"gateway": {"port": 1}}


def test_no_file_reads_as_an_empty_one(tmp_path: Path) -> None:
    read = source.read(tmp_path / "none.json")
    assert (read.exists, read.parsed) == (False, {})


def test_the_hash_is_the_sha_256_of_the_text(tmp_path: Path) -> None:
    file = tmp_path / "skerry.json"
    file.write_text("{}")
    expected = "44136fa355b3678a1146ad16f7e8649e94fb4fc21fe77e8310c060f61caaff8a"
    assert source.read(file).hash == expected


@pytest.mark.parametrize(
    ("text", "says"),
    [
        pytest.param('{\n  "a": 1\n  "b": 2}', "line 3, column 3: Expected comma", id="comma"),
        pytest.param('{"a": "sk-canary\n"}', "Unclosed string", id="open text"),
        pytest.param("{a: sk-canary}", "line 1", id="bare word"),
        pytest.param("{} sk-canary", "Extra data", id="more behind"),
        pytest.param("[1]", "must be one object", id="list"),
        pytest.param("[" * 100_000, "nesting", id="too deep"),
        pytest.param('{"a": ' + "[" * 40 + "]" * 40 + "}", "nesting", id="too deep, else plain"),
        pytest.param('{"a": "\\ud800"}', "line 1", id="half a character"),
    ],
)
def test_what_is_not_json5_is_named_by_place_and_never_quoted(
    tmp_path: Path, text: str, says: str
) -> None:
    file = tmp_path / "skerry.json"
    file.write_text(text)
    with pytest.raises(ConfigInvalidError) as caught:
        source.read(file)
    assert says in str(caught.value)
    assert "canary" not in str(caught.value)


def test_a_file_beyond_the_limit_is_refused(tmp_path: Path) -> None:
    file = tmp_path / "skerry.json"
    file.write_text("{}" + " " * source.MAX_BYTES)
    with pytest.raises(ConfigInvalidError, match="larger than"):
        source.read(file)


def test_bytes_that_are_not_utf_8_are_refused(tmp_path: Path) -> None:
    file = tmp_path / "skerry.json"
    file.write_bytes(b'{"a": "\xff"}')
    with pytest.raises(ConfigInvalidError, match="byte 7 is not UTF-8"):
        source.read(file)


def test_a_pipe_in_the_file_s_place_is_refused_at_once(tmp_path: Path) -> None:
    os.mkfifo(tmp_path / "skerry.json")
    with pytest.raises(ConfigInvalidError, match="not a plain file"):
        source.read(tmp_path / "skerry.json")
