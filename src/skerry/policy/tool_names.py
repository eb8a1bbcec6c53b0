"""Names of tools in rules: groups, aliases, profiles and fixed lists (pure).

Sources: seeds 002 and 003, "Tool Policy" and "Tool Security Model"; openclaw-behaviour 9.2-9.4.
"""

from collections.abc import Iterable, Mapping
from types import MappingProxyType
from typing import Final

GROUP: Final = "group:"
PLUGIN_GROUP: Final = "group:plugins"
SERVERS: Final = "mcp_"
"""Beginning of the names of tools of MCP servers, which are known only while a gateway runs."""

_GROUPS: Final = {
    "memory": ("memory_search", "memory_get", "memory_write", "memory_forget"),
    "web": ("web_search", "web_fetch"),
    "fs": ("read", "write", "edit", "apply_patch"),
    "runtime": ("exec", "process"),
    "sessions": (
        "sessions_list",
        "sessions_history",
        "sessions_send",
        "sessions_spawn",
        "subagents",
        "session_status",
        "session_search",
    ),
    "ui": ("browser", "canvas"),
    "automation": ("cron", "gateway"),
    "messaging": ("message",),
    "nodes": ("nodes",),
}
_UNGROUPED: Final = ("agents_list", "image", "tts")
CHOSEN: Final = frozenset(
    {
        "agents_list",
        "canvas",
        "cron",
        "gateway",
        "image",
        "message",
        "nodes",
        "session_status",
        "sessions_history",
        "sessions_list",
        "sessions_send",
        "sessions_spawn",
        "subagents",
    }
)
"""Tools that are offered only if a profile or a list selects them by name."""
SWITCHED: Final = frozenset({"browser"})
"""Tools that are offered only if the section of their name enables them."""
PLANNED: Final = frozenset({"tts"})
"""Names of tools of later versions, which rules may already have."""
MEMORY_TOOLS: Final = frozenset(_GROUPS["memory"])
CORE: Final = frozenset((*_UNGROUPED, *(name for names in _GROUPS.values() for name in names)))
"""Names of the built-in tools, including those of later versions."""
GROUPS: Final[Mapping[str, frozenset[str]]] = MappingProxyType(
    {
        **{f"{GROUP}{group}": frozenset(names) for group, names in _GROUPS.items()},
        f"{GROUP}openclaw": CORE,
    }
)
"""Tools by group; `group:plugins` depends on the loaded plugins."""

ALIASES: Final[Mapping[str, str]] = MappingProxyType(
    {
        "apply-patch": "apply_patch",
        "bash": "exec",
        "channel_send": "message",
        "code_run": "exec",
        "cron_create": "cron",
        "dm_send": "message",
        "file_delete": "",
        "file_read": "read",
        "file_write": "write",
        "node_command": "nodes",
        "node_list": "nodes",
        "shell": "exec",
        "ui_confirm": "",
        "ui_notify": "",
        "ui_prompt": "",
        "web_browse": "web_fetch",
        "webhook_create": "",
    }
)
"""Canonical names by alias; empty for an alias without a tool."""

_CODING: Final = ("fs", "runtime", "sessions", "memory")
PROFILES: Final[Mapping[str, frozenset[str] | None]] = MappingProxyType(
    {
        "minimal": frozenset({"session_status"}),
        "coding": frozenset({"image", *(name for group in _CODING for name in _GROUPS[group])}),
        "messaging": frozenset(
            {
                "message",
                "sessions_list",
                "sessions_history",
                "sessions_send",
                "session_status",
                *_GROUPS["memory"],
            }
        ),
        "full": None,
    }
)
"""Tools by profile; None restricts nothing."""

OWNER_ONLY: Final = frozenset({"browser", "canvas", "cron", "gateway", "nodes", "whatsapp_login"})
"""Tools that only the owner gets, whatever the configuration grants."""
SUBAGENT_DENIED: Final = frozenset(
    {
        "agents_list",
        "cron",
        "gateway",
        "memory_get",
        "memory_search",
        "session_status",
        "sessions_history",
        "sessions_list",
        "sessions_send",
        "sessions_spawn",
        "whatsapp_login",
    }
)
"""Tools that no sub-agent gets: the union of the lists in both seeds."""
SANDBOX_DENIED: Final = frozenset({"browser", "canvas", "cron", "gateway", "nodes"})
"""Tools that a sandboxed conversation of other people does not get if `tools.sandbox.tools` is not
set."""
HOST_TOOLS: Final = frozenset({"exec", "process"})
"""Tools that may run outside the sandbox."""
KNOWN_PLUGINS: Final = frozenset(
    {
        "diffs",
        "llm-task",
        "llm_task",
        "lobster",
        "memory-core",
        "memory-lancedb",
        "memory-memwal",
        "memory_store",
        "memwal",
        "voice-call",
        "voice_call",
        "whatsapp_login",
    }
)
"""Plugins of OpenClaw and their tools, which imported rules may name without being installed."""


def canonical(name: str) -> str:
    """Returns the canonical name of a tool, for comparison; empty for an alias without a tool."""
    folded = name.strip().lower()
    return ALIASES.get(folded, folded)


def expanded(entries: Iterable[str]) -> dict[str, str]:
    """Returns the names and patterns of the entries of a list, each with its entry.

    A group is replaced by its tools; an unknown group and an alias without a tool are dropped.
    `group:plugins` is kept.
    """
    names: dict[str, str] = {}
    for entry in entries:
        folded = canonical(entry)
        if folded.startswith(GROUP) and folded != PLUGIN_GROUP:
            for name in sorted(GROUPS.get(folded, ())):
                names.setdefault(name, entry)
        elif folded:
            names.setdefault(folded, entry)
    return names
