"""Section `mcp`: servers of the Model Context Protocol, whose tools agents use."""

import re
from fnmatch import fnmatchcase
from pathlib import Path
from typing import Annotated, Final, Literal, Self

from pydantic import AfterValidator, Field, SecretStr, model_validator

from skerry.config.base import Section
from skerry.config.models import Headers
from skerry.policy.urls import Refusal, Target, parse_url

NAME: Final = re.compile(r"[a-z0-9](?:[a-z0-9-]{0,22}[a-z0-9])?")
"""Names of servers; without `_`, so that the name of a tool names one server."""
MAX_SERVERS: Final = 50
_VARIABLE: Final = re.compile(r"[A-Za-z_][A-Za-z0-9_]{0,127}")

ToolPattern = Annotated[str, Field(min_length=1, max_length=128)]
"""Name of a tool as the server calls it; `*` matches any characters."""
Patterns = Annotated[tuple[ToolPattern, ...], Field(max_length=500)]


def _variables(value: dict[str, SecretStr]) -> dict[str, SecretStr]:
    for name in value:
        if _VARIABLE.fullmatch(name) is None:
            message = f"{name!r} is not the name of a variable"
            raise ValueError(message)
    return value


def _address(value: str) -> str:
    target = parse_url(value)
    if isinstance(target, Refusal):
        message = f"it is not the address of a server: {target.reason}"
        raise ValueError(message)  # noqa: TRY004 - pydantic reports ValueError
    return value


def selects(patterns: Patterns, name: str) -> bool:
    """Returns whether one of the patterns matches a tool by its name."""
    return any(fnmatchcase(name, pattern.replace("[", "[[]")) for pattern in patterns)


class ServerToolsConfig(Section):
    """Tools of the server that agents are offered."""

    allow: Patterns = ()
    """Names or patterns of the offered tools; empty offers all."""
    deny: Patterns = ()
    """Names or patterns of tools that are never offered."""

    def offers(self, name: str) -> bool:
        """Returns whether agents are offered a tool."""
        return (not self.allow or selects(self.allow, name)) and not selects(self.deny, name)


class McpServerConfig(Section):
    """One server: a program (`command`), or an address (`url`)."""

    enabled: bool = True
    """Offers the tools of the server."""
    command: str | None = Field(default=None, min_length=1, max_length=4096)
    """Program that is started, and speaks over its standard input and output."""
    args: tuple[Annotated[str, Field(max_length=8192)], ...] = Field(default=(), max_length=200)
    """Arguments of the program."""
    env: Annotated[dict[str, SecretStr], AfterValidator(_variables)] = Field(
        default_factory=dict, max_length=100
    )
    """Variables of the program, in addition to PATH, HOME and the language."""
    cwd: Path | None = None
    """Working directory of the program; by default the home directory."""
    url: Annotated[str, AfterValidator(_address)] | None = Field(default=None, max_length=4096)
    """Address of the server."""
    transport: Literal["stdio", "http", "streamable-http", "sse"] | None = None
    """Protocol of an address: `http` (Streamable HTTP, the default), or the older `sse`."""
    headers: Headers = Field(default_factory=dict, max_length=50)
    """Headers of each request, such as `Authorization`."""
    tools: ServerToolsConfig = ServerToolsConfig.model_construct()
    auto_approve: Patterns = ()
    """Names or patterns of tools that the owner's runs call without approval."""
    auto_approve_read_only: bool = False
    """Calls the tools that the server declares as read-only without approval."""
    timeout_seconds: float = Field(default=60.0, ge=1, le=600)
    """Time limit of one call."""
    start_timeout_seconds: float = Field(default=30.0, ge=1, le=300)
    """Time limit from the start of the server to its list of tools."""
    idle_seconds: float = Field(default=600.0, ge=1, le=86_400)
    """Time without a call after which the server is ended, or its connection closed."""
    max_result_chars: int = Field(default=50_000, ge=1000, le=500_000)
    """Limit of the text of a result, in characters."""

    @model_validator(mode="after")
    def _has_one_way(self) -> Self:
        if (self.command is None) == (self.url is None):
            message = "give either command (a program) or url (an address)"
            raise ValueError(message)
        is_program = self.command is not None
        if self.transport is not None and is_program is not (self.transport == "stdio"):
            other = "command" if is_program else "url"
            message = f"transport {self.transport!r} does not fit {other}"
            raise ValueError(message)
        strange = ("headers",) if is_program else ("args", "env", "cwd")
        if needless := [name for name in strange if getattr(self, name)]:
            other = "command" if is_program else "url"
            message = f"{', '.join(needless)} has no use with {other}"
            raise ValueError(message)
        return self

    @property
    def target(self) -> Target | None:
        """Returns the parsed address; None for a program."""
        target = parse_url(self.url or "")
        return None if isinstance(target, Refusal) else target

    @property
    def kind(self) -> str:
        """Returns `stdio`, `http` or `sse`."""
        if self.command is not None:
            return "stdio"
        return "sse" if self.transport == "sse" else "http"

    @property
    def shown(self) -> str:
        """Returns the program or the origin; arguments and paths may have secrets."""
        if self.target is not None:
            return f"{self.target.scheme}://{self.target.authority}"
        return f"{self.command} …" if self.args else self.command or ""


def _servers(value: dict[str, McpServerConfig]) -> dict[str, McpServerConfig]:
    for name in value:
        if NAME.fullmatch(name) is None:
            message = f"{name!r} is not a name of a server: use a-z, 0-9 and -, at most 24"
            raise ValueError(message)
    return value


class McpConfig(Section):
    """Servers of the Model Context Protocol."""

    servers: Annotated[dict[str, McpServerConfig], AfterValidator(_servers)] = Field(
        default_factory=dict, max_length=MAX_SERVERS
    )
    """Servers by name; their tools are named `mcp_<server>_<tool>`."""
