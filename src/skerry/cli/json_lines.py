"""Reads JSON objects from stdin, one a line: option `--stdin` of commands for programs."""

import json
import math
import sys
from collections.abc import Iterator
from typing import Any, BinaryIO, Final, NoReturn

from msgspec import Struct

MAX_LINE: Final = 1024 * 1024
"""Limit of a line, in bytes; the rest of a longer line is dropped."""


class BadLine(Struct, frozen=True):
    """A line that is no JSON object."""

    number: int
    """Number of the line, from 1."""
    message: str

    @property
    def answer(self) -> dict[str, Any]:
        """Returns the response to the line."""
        error = {"code": "bad-line", "message": self.message, "line": self.number}
        return {"id": None, "error": error}


def lines(stream: BinaryIO | None = None) -> Iterator[dict[str, Any] | BadLine]:
    """Yields the objects of stdin; reads a line when the caller requests it.

    Empty lines are skipped. A line that is too long or no JSON object becomes a `BadLine`.
    """
    source = stream or getattr(sys.stdin, "buffer", None)
    number = 0
    while source is not None and (line := source.readline(MAX_LINE + 1)):
        number += 1
        if len(line) > MAX_LINE:
            while not line.endswith(b"\n") and (line := source.readline(MAX_LINE)):
                pass
            yield BadLine(number, f"Line {number} has more than {MAX_LINE} bytes.")
        elif line.strip():
            yield _parsed(number, line)


def decoded(line: bytes) -> Any:
    """Returns the value of a line; each number in it can be written as JSON again.

    Raises:
        ValueError: the line is not JSON.
        RecursionError: the value is nested too deep.
    """
    return json.loads(line.decode(), parse_constant=_refused, parse_float=_finite)


def _finite(text: str) -> float:
    number = float(text)
    if not math.isfinite(number):
        raise ValueError(f"{text} is too large")
    return number


def _parsed(number: int, line: bytes) -> dict[str, Any] | BadLine:
    try:
        value = decoded(line)
    except (ValueError, RecursionError) as error:
        return BadLine(number, f"Line {number} is not JSON: {error}.")
    if not isinstance(value, dict):
        return BadLine(number, f"Line {number} is not a JSON object.")
    return value


def _refused(name: str) -> NoReturn:
    raise ValueError(f"{name} is no number of JSON")


def answer(value: object) -> None:
    """Prints a response as a line of ASCII and flushes it, since its reader may wait for it."""
    print(json.dumps(value), flush=True)
