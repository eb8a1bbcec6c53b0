"""The tool `edit`: replaces one passage of a text file in the workspace."""

import codecs
from typing import Any, Final

import anyio.to_thread
from pydantic import BaseModel, ConfigDict, Field

from skerry.features.files.change_review import Changer
from skerry.features.files.diffs import details
from skerry.features.files.journal import Journal
from skerry.features.files.parameters import MAX_BYTES, PATH_ALIASES, FilePath, encoded
from skerry.model.errors import ToolError
from skerry.model.origin import Origin
from skerry.model.tool import ToolResult, ToolSpec
from skerry.policy.access import Verb
from skerry.ports.tool import ToolContext
from skerry.sdk.arguments import named

ALIASES: Final = {
    **PATH_ALIASES,
    "old_string": "oldText",
    "old_text": "oldText",
    "oldString": "oldText",
    "new_string": "newText",
    "new_text": "newText",
    "newString": "newText",
}


class EditParams(BaseModel):
    """Parameters of `edit`."""

    model_config = ConfigDict(frozen=True, extra="forbid")

    path: FilePath
    # The names of OpenClaw's tool, with which models are familiar.
    oldText: str = Field(  # noqa: N815
        description="The passage as it stands; it must occur once.",
        min_length=1,
        max_length=MAX_BYTES,
    )
    newText: str = Field(description="What stands there then.", max_length=MAX_BYTES)  # noqa: N815


class Edit:
    """Replaces one passage of a plain file; keeps line endings and the byte order mark."""

    own_errors = True
    verb = Verb.WRITE
    spec = ToolSpec("edit", "Replace a passage of a text file.", EditParams.model_json_schema())

    def __init__(self, journal: Journal | None = None) -> None:
        self._journal = journal

    def writes(self, arguments: dict[str, Any]) -> list[str]:
        """Returns the file that a call writes."""
        path = named(arguments, ALIASES, ("path",)).get("path")
        return [path] if isinstance(path, str) else []

    async def run(self, arguments: dict[str, Any], context: ToolContext) -> ToolResult:
        """Replaces the passage and returns the number of its first line."""
        renamed = named(arguments, ALIASES, ("path", "oldText", "newText"))
        params = EditParams.model_validate(renamed)
        changer = Changer(context, "edit", self._journal)
        return await anyio.to_thread.run_sync(_edit, params, changer)


def _edit(params: EditParams, changer: Changer) -> ToolResult:
    line = 0

    def change(old: bytes | None) -> bytes:
        nonlocal line
        new, line = _changed(old, params)
        return new

    file_diff = changer.replace(params.path, change)
    return ToolResult(
        f"Edited {params.path} at line {line}.", origin=Origin.LOCAL, details=details([file_diff])
    )


def _changed(old: bytes | None, params: EditParams) -> tuple[bytes, int]:
    """Returns the new content, and the line of the passage, from 1."""
    path = params.path
    if old is None:
        raise ToolError(f"Cannot edit {path}: the file does not exist. Create it with write.")
    mark = codecs.BOM_UTF8 if old.startswith(codecs.BOM_UTF8) else b""
    try:
        text = old[len(mark) :].decode()
    except UnicodeDecodeError as error:
        raise ToolError(f"Cannot edit {path}: the file is not UTF-8 text.") from error
    if "\0" in text:
        raise ToolError(f"Cannot edit {path}: the file is not a text file.")
    # Models write \n; in a file whose every line ends with \r\n they mean \r\n.
    windows = "\r\n" in text and text.count("\r\n") == text.count("\n")
    passage, replacement = _lines(params.oldText, windows), _lines(params.newText, windows)
    if passage == replacement:
        raise ToolError(f"Cannot edit {path}: oldText and newText are the same.")
    at = text.find(passage)
    if at < 0:
        raise ToolError(
            f"Cannot edit {path}: oldText does not occur. Read the file and give the passage"
            " exactly, with its spaces, without line numbers."
        )
    if text.find(passage, at + 1) >= 0:
        raise ToolError(
            f"Cannot edit {path}: oldText occurs more than once. Give more of the lines around it."
        )
    new = text[:at] + replacement + text[at + len(passage) :]
    return encoded(mark.decode() + new, path), text.count("\n", 0, at) + 1


def _lines(text: str, windows: bool) -> str:  # noqa: FBT001 - one of two kinds of text
    return text.replace("\r\n", "\n").replace("\n", "\r\n") if windows else text
