"""The tool `write`: a whole file in the workspace."""

from typing import Any

import anyio.to_thread
from pydantic import BaseModel, ConfigDict, Field

from skerry.features.files.parameters import MAX_BYTES, FilePath, encoded, explained
from skerry.model.tool import ToolResult, ToolSpec
from skerry.policy.access import Verb
from skerry.ports.tool import ToolContext


class WriteParams(BaseModel):
    """Parameters of `write`."""

    model_config = ConfigDict(frozen=True, extra="forbid")

    path: FilePath
    content: str = Field(description="All that it is to hold.", max_length=MAX_BYTES)


class Write:
    """Makes a plain file beneath the workspace, or replaces it as a whole."""

    verb = Verb.WRITE
    spec = ToolSpec("write", "Make or replace a text file.", WriteParams.model_json_schema())

    async def run(self, arguments: dict[str, Any], context: ToolContext) -> ToolResult:
        """Writes the file and says how much there is now."""
        params = WriteParams.model_validate(arguments)
        return ToolResult(await anyio.to_thread.run_sync(_write, params, context))


def _write(params: WriteParams, context: ToolContext) -> str:
    data = encoded(params.content, params.path)
    with explained("write", params.path):
        new = context.workspace.replace(params.path, lambda _: data, most=MAX_BYTES, whole=True)
    return f"{'Made' if new else 'Replaced'} {params.path}: {len(data)} bytes."
