"""Tools that servers listed: the trusted version of each, and the present one."""

from typing import Final

import msgspec
from msgspec import Struct

from skerry.features.mcp.listed_tool import ListedTool
from skerry.store.unit import Reader, Unit

STEPS: Final = (
    """
    CREATE TABLE mcp_tools (
        server TEXT NOT NULL,
        name TEXT NOT NULL,
        trusted TEXT,
        present TEXT,
        PRIMARY KEY (server, name)
    ) WITHOUT ROWID
    """,
)
KEPT: Final = ("mcp_tools",)
"""A restored backup brings no tool back that the owner does not trust."""
TEXTS: Final = ()
"""The texts are of servers; an erasure reads this."""


class StoredTool(Struct, frozen=True):
    """Versions of a tool of a server."""

    name: str
    trusted: ListedTool | None
    """Version that the owner trusts; None for a tool that is new since the first list."""
    present: ListedTool | None
    """Version of the last list; None if the list did not have the tool."""

    @property
    def state(self) -> str:
        """Returns `trusted`, `new`, `changed` or `missing`."""
        if self.present is None:
            return "missing"
        if self.trusted is None:
            return "new"
        return "trusted" if self.trusted.digest == self.present.digest else "changed"


_MARK: Final = ""
"""Name of the row that marks a server with a list; a list may have no tool, a tool has a name."""
_tools: Final = msgspec.json.Decoder(ListedTool)


def _decoded(text: str | None) -> ListedTool | None:
    return None if text is None else _tools.decode(text)


def _encoded(tool: ListedTool | None) -> str | None:
    return None if tool is None else msgspec.json.encode(tool).decode()


def stored(reader: Reader, server: str) -> list[StoredTool]:
    """Returns the tools of a server by name; empty before its first list."""
    rows = reader.all(
        "SELECT name, trusted, present FROM mcp_tools WHERE server = ? AND name <> ? ORDER BY name",
        (server, _MARK),
    )
    return [StoredTool(name, _decoded(own), _decoded(last)) for name, own, last in rows]


def put(unit: Unit, server: str, tool: StoredTool) -> None:
    """Stores the versions of a tool."""
    unit.execute(
        "INSERT INTO mcp_tools (server, name, trusted, present) VALUES (?, ?, ?, ?)"
        " ON CONFLICT (server, name) DO UPDATE SET"
        " trusted = excluded.trusted, present = excluded.present",
        (server, tool.name, _encoded(tool.trusted), _encoded(tool.present)),
    )


def mark_listed(unit: Unit, server: str) -> bool:
    """Records that a server has sent a list; returns false when it had sent one before."""
    is_first = unit.one("SELECT 1 FROM mcp_tools WHERE server = ? LIMIT 1", (server,)) is None
    unit.execute(
        "INSERT INTO mcp_tools (server, name) VALUES (?, ?) ON CONFLICT (server, name) DO NOTHING",
        (server, _MARK),
    )
    return is_first


def forget(unit: Unit, server: str) -> None:
    """Removes the tools of a server: its next list is its first."""
    unit.execute("DELETE FROM mcp_tools WHERE server = ?", (server,))
