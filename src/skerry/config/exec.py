"""Section `tools.exec`: commands that agents run; also as a section of one agent."""

from typing import Annotated, Literal

from pydantic import Field

from skerry.config.base import Section

Host = Literal["sandbox", "gateway", "node"]
Security = Literal["deny", "allowlist", "full"]
Ask = Literal["off", "on-miss", "always"]
Pattern = Annotated[str, Field(min_length=1, max_length=1024)]
Program = Annotated[str, Field(min_length=1, max_length=128)]


class AgentExec(Section):
    """Commands of one agent; each missing key takes the value of `tools.exec`."""

    host: Host | None = None
    """Machine that runs commands: `sandbox`, `gateway` (this machine) or `node`."""
    security: Security | None = None
    """Commands that may run: none (`deny`), those on the allowlist (`allowlist`), or all (`full`).
    When unset, `full` in a sandbox and `allowlist` on a host; the strictest of all settings
    applies."""
    ask: Ask | None = None
    """Commands that need a person's approval: none (`off`), those not on the allowlist
    (`on-miss`), or all (`always`). When unset, `on-miss` on a host."""
    allowlist: tuple[Pattern, ...] | None = Field(default=None, max_length=1000)
    """Patterns of commands that run without approval on a host, such as `git status`."""
    safe_bins: tuple[Program, ...] | None = Field(default=None, max_length=100)
    """Programs that run without approval on a host as filters of their standard input. When unset,
    a built-in list."""
    node: str | None = Field(default=None, max_length=200)
    """Id or name of the node that runs the commands of host `node`; when unset, the only connected
    node."""


class ExecConfig(AgentExec):
    """Commands of all agents."""

    host: Host = "sandbox"
    """Machine that runs commands: `sandbox`, `gateway` (this machine) or `node`."""
    timeout_sec: float = Field(default=1800.0, gt=0, le=86_400)
    """Seconds after which a command is killed, if the call has no time limit."""
    background_ms: int = Field(default=10_000, ge=10, le=120_000)
    """Milliseconds after which a call returns and its command continues in the background."""
    cleanup_ms: int = Field(default=1_800_000, ge=60_000, le=10_800_000)
    """Milliseconds after the end of a command for which its output is kept."""
    notify_on_exit: bool = True
    """Starts a turn at the end of a background command, unless the agent has read the result."""
