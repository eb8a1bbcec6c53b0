"""An MCP server of the tests, written with the SDK.

`python -m tests.support.mcp_server` uses standard input and output; a test serves `made()` itself.
"""

import base64
import os

from mcp.server import MCPServer
from mcp_types import ImageContent, ToolAnnotations

PNG = base64.b64decode(
    "iVBORw0KGgoAAAANSUhEUgAAAAEAAAABCAYAAAAfFcSJAAAADUlEQVR42mNk+M9QDwADhgGAWjR9awAAAABJRU5ErkJggg=="
)


def add(a: int, b: int) -> int:
    """Adds two numbers."""
    return a + b


def variables() -> str:
    """Names the variables of the process."""
    return " ".join(sorted(os.environ))


def draw() -> ImageContent:
    """Draws a picture."""
    return ImageContent(type="image", data=base64.b64encode(PNG).decode(), mimeType="image/png")


def made() -> MCPServer:
    """Returns a server, whose tool `add` declares that it only reads."""
    server = MCPServer("sums")
    server.tool(annotations=ToolAnnotations(readOnlyHint=True))(add)
    server.tool()(variables)
    server.tool()(draw)
    return server


if __name__ == "__main__":
    made().run("stdio")
