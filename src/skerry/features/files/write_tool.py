"""The tool `write`: writes a whole file in the workspace."""

from typing import Any

import anyio.to_thread
from pydantic import BaseModel, ConfigDict, Field

from skerry.features.files.change_review import Changer
from skerry.features.files.diffs import details
from skerry.features.files.journal import Journal
from skerry.features.files.parameters import MAX_BYTES, PATH_ALIASES, FilePath, encoded
from skerry.model.origin import Origin
from skerry.model.tool import ToolResult, ToolSpec
from skerry.policy.access import Verb
from skerry.ports.tool import ToolContext
from skerry.sdk.arguments import named


class WriteParams(BaseModel):
    """Parameters of `write`."""

    model_config = ConfigDict(frozen=True, extra="forbid")

    path: FilePath
    content: str = Field(description="All that it is to hold.", max_length=MAX_BYTES)


class Write:
    """Creates a plain file below the workspace, or replaces all of it."""

    own_errors = True
    verb = Verb.WRITE
    spec = ToolSpec("write", "Make or replace a text file.", WriteParams.model_json_schema())

    def __init__(self, journal: Journal | None = None) -> None:
        self._journal = journal

    def writes(self, arguments: dict[str, Any]) -> list[str]:
        """Returns the file that a call writes."""
        path = named(arguments, PATH_ALIASES, ("path",)).get("path")
        return [path] if isinstance(path, str) else []

    async def run(self, arguments: dict[str, Any], context: ToolContext) -> ToolResult:
        """Writes the file and returns its size."""
        params = WriteParams.model_validate(named(arguments, PATH_ALIASES, ("path", "content")))
        changer = Changer(context, "write", self._journal)
        return await anyio.to_thread.run_sync(_write, params, changer)


def _write(params: WriteParams, changer: Changer) -> ToolResult:
    data = encoded(params.content, params.path)
    file_diff = changer.replace(params.path, lambda _: data, whole=True)
    verb = "Made" if file_diff.kind == "add" else "Replaced"
    text = f"{verb} {params.path}: {len(data)} bytes."
    return ToolResult(text, origin=Origin.LOCAL, details=details([file_diff]))
