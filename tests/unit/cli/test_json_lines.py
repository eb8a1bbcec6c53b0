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


BAD = {
    "text": b"nonsense",
    "list": b"[]",
    "number": b"1",
    "string": b'"a"',
    "no UTF-8": b"\xff\xfe",
    "UTF-16": '{"a":1}'.encode("utf-16-le"),
    "deep": b"[" * 9999,
    "no number of JSON": b'{"id":NaN}',
}


@pytest.mark.parametrize("line", BAD.values(), ids=BAD)
def test_what_is_no_object_is_named_with_its_line(line: bytes) -> None:
    (found,) = lines(io.BytesIO(line))
    assert isinstance(found, BadLine)
    assert found.answer["id"] is None
    assert found.answer["error"]["line"] == 1
