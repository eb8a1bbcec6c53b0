"""The tool `read`: lines of a text file in the workspace."""

from collections.abc import Iterator
from itertools import islice
from typing import Any, BinaryIO, Final

import anyio.to_thread
from pydantic import BaseModel, ConfigDict, Field

from skerry.features.files.parameters import FilePath, explained
from skerry.model.errors import ToolError
from skerry.model.origin import Origin
from skerry.model.tool import ToolResult, ToolSpec
from skerry.policy.access import Verb
from skerry.policy.gate import Gate
from skerry.ports.tool import ToolContext

MAX_LINES: Final = 2000
MAX_CHARS: Final = 50_000
"""Limit of one result, in characters: as much as a model can use of a file at once."""
LINE_BYTES: Final = 8192
"""Limit of one line, in bytes; the rest is left out: a file of one endless line must not fill the
memory."""


class ReadParams(BaseModel):
    """Parameters of `read`."""

    model_config = ConfigDict(frozen=True, extra="forbid")

    path: FilePath
    start: int = Field(default=1, ge=1, le=1_000_000_000, description="First line, from 1.")
    lines: int = Field(default=400, ge=1, le=MAX_LINES, description="How many lines.")


class Read:
    """Reads plain files beneath the workspace; links and what is outside are refused."""

    reads_only = True

    verb = Verb.READ
    spec = ToolSpec("read", "Read lines of a text file.", ReadParams.model_json_schema())

    async def run(self, arguments: dict[str, Any], context: ToolContext) -> ToolResult:
        """Returns the asked lines, each with its number."""
        params = ReadParams.model_validate(arguments)
        return await anyio.to_thread.run_sync(_read, params, context)


def _read(params: ReadParams, context: ToolContext) -> ToolResult:
    with explained("read", params.path), context.workspace.look(params.path) as (file, opened):
        text = _window(file, params)
        gate = context.workspace.rules
        origin = gate.origin(opened, file, text) if isinstance(gate, Gate) else Origin.TOOL
        return ToolResult(text, origin=origin)


def _window(file: BinaryIO, params: ReadParams) -> str:
    if b"\0" in file.read(1024):
        raise ToolError(f"{params.path} is not a text file.")
    file.seek(0)
    shown: list[str] = []
    room = MAX_CHARS
    first = params.start - 1
    window = islice(_lines(file), first, first + params.lines)
    for number, line in enumerate(window, params.start):
        text = f"{number}: {line}"
        room -= len(text)
        if room < 0:
            shown.append(f"[cut at {MAX_CHARS} characters; go on with start={number}]")
            break
        shown.append(text)
    return "\n".join(shown) or f"{params.path} has no line {params.start}."


def _lines(file: BinaryIO) -> Iterator[str]:
    while piece := file.readline(LINE_BYTES):
        text = piece.decode("utf-8", "replace").rstrip()
        cut = False
        while not piece.endswith(b"\n") and (piece := file.readline(LINE_BYTES)):
            cut = cut or piece != b"\n"
        yield f"{text} [line cut]" if cut else text
