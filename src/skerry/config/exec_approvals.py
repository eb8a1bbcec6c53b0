"""File `exec-approvals.json` of OpenClaw: its patterns, and the parts that cannot be imported."""

from typing import Annotated, Any, Final, Literal

import msgspec
from msgspec import Struct
from pydantic import BaseModel, ConfigDict, Field, ValidationError
from pydantic.alias_generators import to_camel

from skerry.infra.untrusted_json import UNREADABLE

MAX_BYTES: Final = 4_194_304
"""Maximum bytes of a file."""
EVERY_AGENT: Final = "*"
SECURITIES: Final = ("deny", "allowlist", "full")
"""Values, the strictest first."""
ASKS: Final = ("always", "on-miss", "off")
"""Values, the most cautious first."""
_LEGACY: Final = "default"
_MAIN: Final = "main"
_Word = Annotated[str, Field(max_length=64)]
_Text = Annotated[str, Field(max_length=1024)]


class FileEntry(Struct, frozen=True):
    """One pattern of an agent."""

    agent: str
    pattern: str
    last_used_at: int | None = None
    last_command: str = ""
    last_path: str = ""


class _Part(BaseModel):
    model_config = ConfigDict(
        frozen=True, extra="forbid", alias_generator=to_camel, populate_by_name=False
    )


class _Modes(_Part):
    """Modes of the program that wrote the file; Skerry has them in its configuration."""

    security: _Word | None = None
    ask: _Word | None = None
    ask_fallback: _Word | None = None
    auto_allow_skills: bool | None = None


class _Entry(_Part):
    id: _Text | None = None
    pattern: _Text
    source: _Word | None = None
    command_text: _Text | None = None
    arg_pattern: _Text | None = None
    last_used_at: float | None = None
    last_used_command: str | None = None
    last_resolved_path: str | None = None


class _Agent(_Modes):
    allowlist: Annotated[list[_Entry | _Text], Field(max_length=1000)] = []
    mcp_tools: Annotated[list[dict[str, Any]], Field(max_length=1000)] = []


class _Socket(_Part):
    path: _Text | None = None
    token: _Text | None = None


class ApprovalsFile(_Part):
    """The file in the format of OpenClaw."""

    version: Literal[1]
    socket: _Socket | None = None
    defaults: _Modes = _Modes()
    agents: Annotated[dict[_Word, _Agent], Field(max_length=256)] = {}

    def entries(self) -> list[FileEntry]:
        """Returns the patterns by agent; the agent `default` of old files is `main`.

        A pattern with an expression over the arguments is left out: without it, it would allow
        more commands.
        """
        entries: dict[tuple[str, str], FileEntry] = {}
        for name, rules in self.agents.items():
            agent = _MAIN if name == _LEGACY else name
            for entry in rules.allowlist:
                parsed = _parsed_entry(agent, entry)
                if parsed is not None:
                    entries.setdefault((agent, parsed.pattern), parsed)
        return list(entries.values())

    def modes(self) -> dict[str, dict[str, str]]:
        """Returns the modes that the configuration supports, by agent; `*` is every agent.

        Each has `security`, `ask`, or both.
        """
        sections = {EVERY_AGENT: self.defaults, **self.agents}
        modes: dict[str, dict[str, str]] = {}
        for name, part in sections.items():
            agent = _MAIN if name == _LEGACY else name
            if part.security in SECURITIES:
                modes.setdefault(agent, {})["security"] = part.security
            if part.ask in ASKS:
                modes.setdefault(agent, {})["ask"] = part.ask
        return modes

    def left_out(self) -> list[str]:
        """Returns the parts that are not imported, one sentence each."""
        notes = [
            f"{path}.{key}={value}: there is no such mode"
            for path, modes in self._sections().items()
            for key, value, allowed in (
                ("security", modes.security, SECURITIES),
                ("ask", modes.ask, ASKS),
                ("askFallback", modes.ask_fallback, ("deny",)),
            )
            if value and value not in allowed
        ]
        for name, rules in self.agents.items():
            limited = sum(
                isinstance(entry, _Entry) and bool(entry.arg_pattern) for entry in rules.allowlist
            )
            if limited:
                notes.append(f"{limited} patterns of agent {name} with an expression of arguments")
            if rules.mcp_tools:
                notes.append(f"{len(rules.mcp_tools)} tools of MCP servers of agent {name}")
        return notes

    def unsupported(self) -> str:
        """Returns a sentence about the modes that are not imported; empty without any."""
        named = [
            f"{path}.{key}={value}"
            for path, modes in self._sections().items()
            for key, value in (("security", modes.security), ("ask", modes.ask))
            if value
        ]
        return f"modes are not kept with the allowlist: {', '.join(named)}" if named else ""

    def _sections(self) -> dict[str, _Modes]:
        return {"defaults": self.defaults, **{f"agents.{n}": r for n, r in self.agents.items()}}


def _parsed_entry(agent: str, entry: _Entry | str) -> FileEntry | None:
    if isinstance(entry, str):
        return FileEntry(agent, entry.strip()) if entry.strip() else None
    if not entry.pattern.strip() or entry.arg_pattern:
        return None
    return FileEntry(
        agent,
        entry.pattern.strip(),
        int(entry.last_used_at) if entry.last_used_at else None,
        entry.last_used_command or "",
        entry.last_resolved_path or "",
    )


def parse(content: bytes) -> ApprovalsFile | None:
    """Returns the parsed file; None if it is damaged, too large or of another version."""
    if len(content) > MAX_BYTES:
        return None
    try:
        return ApprovalsFile.model_validate(msgspec.json.decode(content))
    except (ValidationError, *UNREADABLE):
        return None
