"""The section `mcp`: settings as MCP clients write them are accepted, contradictions are not."""

from typing import Any

import pytest
from pydantic import ValidationError

from skerry.features.mcp.config import McpConfig


def section(name: str, **entry: Any) -> McpConfig:
    return McpConfig.model_validate({"servers": {name: entry}})


def test_the_usual_entries_are_accepted() -> None:
    servers = McpConfig.model_validate(
        {
            "servers": {
                "files": {"command": "npx", "args": ["-y", "x", "/srv"], "env": {"KEY": "secret"}},
                "web": {"url": "https://mcp.example.com/mcp?key=k", "headers": {"X-Key": "secret"}},
                "old": {"url": "http://127.0.0.1:9000/sse", "transport": "sse", "enabled": False},
            }
        }
    ).servers
    assert [server.kind for server in servers.values()] == ["stdio", "http", "sse"]
    assert servers["files"].shown == "npx …"
    assert servers["web"].shown == "https://mcp.example.com"
    assert "secret" not in repr(servers)


@pytest.mark.parametrize(
    ("name", "entry", "message"),
    [
        ("a_b", {"command": "x"}, "not a name of a server"),
        ("a", {}, "either command"),
        ("a", {"command": "x", "url": "https://example.com"}, "either command"),
        ("a", {"command": "x", "transport": "http"}, "does not fit command"),
        ("a", {"url": "https://example.com", "transport": "stdio"}, "does not fit url"),
        ("a", {"url": "https://example.com", "env": {"A": "b"}}, "env has no use with url"),
        ("a", {"url": "file:///etc/passwd"}, "not the address of a server"),
        ("a", {"command": "x", "env": {"A=B": "c"}}, "not the name of a variable"),
        ("a", {"command": "x", "comand": "y"}, "Extra inputs"),
    ],
)
def test_a_contradiction_is_named(name: str, entry: dict[str, Any], message: str) -> None:
    with pytest.raises(ValidationError, match=message):
        section(name, **entry)


def test_lists_select_tools_by_name_and_pattern() -> None:
    tools = section("a", command="x", tools={"allow": ["get_*", "[x]"], "deny": ["get_b"]})
    offers = tools.servers["a"].tools.offers
    assert [offers(name) for name in ("get_a", "get_b", "put", "[x]", "x")] == [
        *(True, False, False),
        *(True, False),
    ]
