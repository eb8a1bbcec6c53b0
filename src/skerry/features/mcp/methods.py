"""Methods for MCP servers: their state, their tools, a test, and the trust in changed tools."""

from typing import Annotated, Any, Final

from pydantic import Field

from skerry.features.mcp.late import config as sections
from skerry.features.mcp.late import mcp_server
from skerry.features.mcp.listed_tool import offered_names
from skerry.features.mcp.mcp_tools import FEATURE, McpTools
from skerry.gateway.frames import Json
from skerry.gateway.method import Call, Method, Name, NoParams, Params, RefusedError


class ServerParams(Params):
    """Parameters of a method about one server."""

    server: Name


class TrustParams(Params):
    """Parameters of `mcp.trust`: the digests that `mcp.tools` returned, by tool."""

    server: Name
    tools: Annotated[dict[str, str], Field(min_length=1, max_length=500)]


def _source(call: Call) -> McpTools:
    source = call.context.tool_sources().get(FEATURE)
    if not isinstance(source, McpTools):
        raise RefusedError("This gateway runs no MCP servers.")
    source.follow()
    return source


def _server(call: Call, name: str) -> "mcp_server.McpServer":
    source = _source(call)
    server = source.servers.get(name)
    if server is None:
        names = ", ".join(source.servers) or "none"
        raise RefusedError(
            f"mcp.servers has no enabled server {name!r}. Servers: {names}.",
            details={"remedy": "List them: skerry mcp list"},
        )
    return server


async def mcp_list(call: Call, _params: NoParams) -> Json:
    """Returns the configured servers with their state, without secrets."""
    source = _source(call)
    section = call.context.config().own_section(sections.McpConfig)
    rows: list[Json] = []
    for name, settings in section.servers.items() if section else ():
        server = source.servers.get(name)
        row: dict[str, Json] = {
            "name": name,
            "kind": settings.kind,
            "address": settings.shown,
            "state": "disabled" if server is None else server.state,
            "tools": 0,
            "held": 0,
            "reason": None,
        }
        if server is not None:
            await server.load()
            row |= {
                "tools": len(server.tools),
                "held": sum(tool.state in {"new", "changed"} for tool in server.stored),
                "reason": server.reason or None,
            }
        rows.append(row)
    return {"servers": rows}


async def mcp_tools(call: Call, params: ServerParams) -> Json:
    """Returns the stored tools of a server, with the texts of each version; starts nothing."""
    server = _server(call, params.server)
    await server.load()
    return _described(server)


async def mcp_test(call: Call, params: ServerParams) -> Json:
    """Connects to a server, lists its tools, and returns them."""
    server = _server(call, params.server)
    await server.load()
    try:
        await server.test()
    except mcp_server.ServerDownError as error:
        raise RefusedError(
            f"The MCP server {server.name} cannot be used: {error}.",
            details={"remedy": f"Check mcp.servers.{server.name}, and its log."},
        ) from error
    return _described(server)


async def mcp_trust(call: Call, params: TrustParams) -> Json:
    """Trusts the present version of tools; a version with another digest stays held back."""
    server = _server(call, params.server)
    await server.load()
    by = f"device {call.device_id}" if call.device_id else "a client"
    return {"server": server.name, "trusted": await server.trust(params.tools, by)}


def _described(server: "mcp_server.McpServer") -> dict[str, Any]:
    names = offered_names(server.name, [tool.name for tool in server.stored])
    rows = []
    for tool in server.stored:
        last = tool.present or tool.trusted
        if last is None:
            continue
        offered = server.tools.get(names[tool.name])
        rows.append(
            {
                "name": tool.name,
                "offeredAs": names[tool.name] if offered else None,
                "state": tool.state,
                "approval": "none" if offered and offered.is_auto_approved else "ask",
                "readOnly": last.declares_read_only,
                "trustedReadOnly": tool.trusted.declares_read_only if tool.trusted else None,
                "description": last.description,
                "trustedDescription": tool.trusted.description if tool.trusted else None,
                "parameters": sorted(last.parameters.get("properties") or ()),
                "schema": last.parameters,
                "trustedSchema": tool.trusted.parameters if tool.trusted else None,
                "digest": last.digest,
                "suspicions": list(last.suspicions),
            }
        )
    return {
        "server": server.name,
        "state": server.state,
        "tools": rows,
        "unusable": [*server.unusable],
    }


METHODS: Final = (
    Method("mcp.list", NoParams, mcp_list),
    Method("mcp.tools", ServerParams, mcp_tools),
    Method("mcp.test", ServerParams, mcp_test),
    Method("mcp.trust", TrustParams, mcp_trust),
)
