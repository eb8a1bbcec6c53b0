"""Objects of stdin, a line each."""

import io

import pytest

from skerry.cli import json_lines
from skerry.cli.json_lines import BadLine, lines


def test_a_line_is_read_when_it_is_asked_for() -> None:
    stream = io.BytesIO(b'{"a":1}\n{"a":2}\n')
    read = lines(stream)
    assert next(read) == {"a": 1}
    assert stream.tell() == 8


def test_a_line_over_the_limit_is_dropped_whole(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(json_lines, "MAX_LINE", 10)
    found = list(lines(io.BytesIO(b'{"a":"' + b"x" * 50 + b'"}\n{"b":1}\n' + b"y" * 30)))
    assert [isinstance(item, BadLine) for item in found] == [True, False, True]


@pytest.mark.parametrize("line", [b"nonsense", b"[]", b"1", b'"a"', b"\xff\xfe", b"[" * 9999])
def test_what_is_no_object_is_named_with_its_line(line: bytes) -> None:
    (found,) = lines(io.BytesIO(line))
    assert isinstance(found, BadLine)
    assert found.answer["id"] is None
    assert found.answer["error"]["line"] == 1
