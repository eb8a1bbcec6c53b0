"""An MCP server of the tests, written with the SDK: over standard input and output, or HTTP.

`python -m tests.support.mcp_server [--http PORT]`. The file that the variable `MCP_TEXT` names, if
there is one, replaces the description of the tool `add`.
"""

import base64
import os
import sys
from pathlib import Path

import anyio
from mcp.server import MCPServer
from mcp_types import ImageContent, ToolAnnotations

PNG = base64.b64decode(
    "iVBORw0KGgoAAAANSUhEUgAAAAEAAAABCAYAAAAfFcSJAAAADUlEQVR42mNk+M9QDwADhgGAWjR9awAAAABJRU5ErkJggg=="
)
READS = ToolAnnotations(readOnlyHint=True)
server = MCPServer("sums")


def _described() -> str:
    path = Path(os.environ.get("MCP_TEXT", "/nonexistent"))
    return path.read_text() if path.exists() else "Adds two numbers."


@server.tool(description=_described(), annotations=READS)
def add(a: int, b: int) -> int:
    """Adds two numbers."""
    return a + b


@server.tool()
def variables() -> str:
    """Names the variables of the process."""
    return " ".join(sorted(os.environ))


@server.tool()
def draw() -> ImageContent:
    """Draws a picture."""
    return ImageContent(type="image", data=base64.b64encode(PNG).decode(), mimeType="image/png")


@server.tool()
async def hang(path: str) -> str:
    """Never answers; writes into a file that its call was cancelled."""
    Path(path).write_text("begun")
    try:
        await anyio.sleep_forever()
    except anyio.get_cancelled_exc_class():
        Path(path).write_text("cancelled")
        raise
    return ""


@server.tool()
def end() -> str:
    """Ends the process."""
    os._exit(3)


if __name__ == "__main__":
    if sys.argv[1:2] == ["--http"]:
        server.run("streamable-http", port=int(sys.argv[2]))
    else:
        server.run("stdio")
