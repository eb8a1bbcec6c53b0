"""Speaks the Model Context Protocol to one server, with the official SDK."""

import logging
from collections.abc import AsyncGenerator, Mapping, Sequence
from contextlib import AbstractAsyncContextManager, asynccontextmanager
from typing import Any, Final

import anyio
import mcp
import mcp_types
from mcp.client.session import IncomingMessage
from mcp.shared.exceptions import MCPError
from pydantic import TypeAdapter, ValidationError

import skerry
from skerry.features.mcp import call_result
from skerry.features.mcp.address_transport import address_streams
from skerry.features.mcp.call_result import McpResult
from skerry.features.mcp.config import McpServerConfig
from skerry.features.mcp.listed_tool import ListedTool, UnusableToolError, listed
from skerry.features.mcp.program_transport import EndOfServer, program_streams
from skerry.model.errors import ToolError
from skerry.policy.folding import visible
from skerry.sdk.tool_host import ToolHost

MAX_TOOLS: Final = 200
"""Limit of the tools of one server; further ones are not offered."""
MAX_PAGES: Final = 20
_MAX_REASON: Final = 300
_RESULT: Final[TypeAdapter[mcp_types.CallToolResult | mcp_types.InputRequiredResult]] = TypeAdapter(
    mcp_types.CallToolResult | mcp_types.InputRequiredResult
)
_ENDS: Final = frozenset(
    {
        (mcp_types.CONNECTION_CLOSED, "Connection closed"),
        (mcp_types.INVALID_REQUEST, "Session terminated"),
    }
)
"""Errors of the SDK for a connection that has ended."""
_LOGGERS: Final = ("client", "mcp")
"""Loggers of the SDK, which log what a server sends."""


class McpClient:
    """One open connection to a server."""

    def __init__(self, client: mcp.Client, settings: McpServerConfig, end: EndOfServer) -> None:
        self._client = client
        self._settings = settings
        self._end = end
        self.is_stale = False
        """True when the server has announced that its tools changed."""

    @property
    def ended(self) -> anyio.Event:
        """Returns the event that is set when the server has closed the connection."""
        return self._end.event

    @property
    def end_reason(self) -> str:
        """Returns the reason why the server closed the connection; empty while it is open."""
        return self._end.reason

    async def listing(self) -> tuple[Sequence[ListedTool], Sequence[str]]:
        """Returns the usable tools of the server, and the reasons why others are not usable."""
        self.is_stale = False
        tools: dict[str, ListedTool] = {}
        unusable: list[str] = []
        cursor: str | None = None
        for _ in range(MAX_PAGES):
            page = await self._client.list_tools(cursor=cursor)
            for entry in page.tools:
                fields = entry.model_dump(mode="json", by_alias=True, exclude_none=True)
                _take(fields, tools, unusable)
            cursor = page.next_cursor
            if cursor is None or len(tools) >= MAX_TOOLS:
                break
        if cursor is not None or len(tools) > MAX_TOOLS:
            unusable.append(f"only the first {MAX_TOOLS} tools are offered")
        return list(tools.values())[:MAX_TOOLS], unusable

    async def call(self, name: str, arguments: dict[str, Any]) -> McpResult:
        """Calls a tool; the caller sets the time limit. A cancelled call is cancelled there too.

        Raises:
            ToolError: the server refused the call, its result is invalid, or it ended.
        """
        try:
            # Not `call_tool`: it checks the result against a schema of the server, whose patterns
            # may take any time, in the event loop.
            params = mcp_types.CallToolRequestParams(name=name, arguments=arguments)
            request = mcp_types.CallToolRequest(params=params)
            result = await self._client.session.send_request(request, _RESULT)
        except MCPError as error:
            if (error.code, error.message) in _ENDS:
                self._end.close("it closed the connection")
                raise ToolError(
                    "The MCP server ended during the call, which may have had an effect."
                ) from error
            raise ToolError(f"The MCP server refused the call: {shown(str(error))}") from error
        except ValidationError as error:
            raise ToolError("The result of the MCP server is not valid.") from error
        except (
            RuntimeError,
            ValueError,
            OSError,
        ) as error:  # of the SDK: a result that fits no schema
            raise ToolError(f"The call failed: {shown(str(error))}") from error
        if not isinstance(result, mcp_types.CallToolResult):
            raise ToolError("The MCP server asks for input of a person, which is not supported.")
        return await call_result.result_of(result, self._settings.max_result_chars)

    async def note(self, message: IncomingMessage) -> None:
        """Notes that the server changed its tools; other messages are ignored."""
        if isinstance(message, mcp_types.ToolListChangedNotification):
            self.is_stale = True


def _take(fields: Mapping[str, Any], tools: dict[str, ListedTool], unusable: list[str]) -> None:
    try:
        tool = listed(fields)
    except (UnusableToolError, RecursionError) as error:
        name = visible(str(fields.get("name")))[:64]
        if len(unusable) < MAX_TOOLS:
            unusable.append(f"{name}: {error}")
        return
    if tool.name in tools:
        unusable.append(f"{tool.name}: listed twice")
        return
    tools[tool.name] = tool


@asynccontextmanager
async def connect(settings: McpServerConfig, host: ToolHost) -> AsyncGenerator[McpClient]:
    """Opens a connection for the block.

    Raises:
        Exception: the server cannot be reached or started; see `mcp_server.reason_of`.
    """
    for logger in _LOGGERS:
        logging.getLogger(logger).setLevel(logging.CRITICAL)
    end = EndOfServer()
    streams: AbstractAsyncContextManager[Any]
    if settings.command is not None:
        streams = program_streams(settings, host, end)
    else:
        streams = address_streams(settings, host, end)
    holder: list[McpClient] = []

    async def note(message: IncomingMessage) -> None:
        for opened in holder:
            await opened.note(message)

    identity = mcp_types.Implementation(name="skerry", version=skerry.__version__)
    client = mcp.Client(
        streams,
        message_handler=note,
        client_info=identity,
        cache=None,
        read_timeout_seconds=max(settings.timeout_seconds, settings.start_timeout_seconds),
    )
    try:
        async with client:
            opened = McpClient(client, settings, end)
            holder.append(opened)
            yield opened
    except Exception as error:
        if end.reason:
            raise ConnectionError(end.reason) from error
        raise


def shown(text: str) -> str:
    """Returns the beginning of a text of a server, on one line."""
    return " ".join(visible(text).split())[:_MAX_REASON]
