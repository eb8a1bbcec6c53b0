"""Section `tools.exec`: commands that an agent runs, also per agent."""

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
    """Commands that may run: none (`deny`), those of the allowlist, or all (`full`). Unset, it is
    `full` in a sandbox and `allowlist` on a host; the strictest of all settings holds."""
    ask: Ask | None = None
    """Commands that a person is asked about: none (`off`), those that the allowlist lacks
    (`on-miss`), or all (`always`). Unset, it is `on-miss` on a host."""
    allowlist: tuple[Pattern, ...] | None = Field(default=None, max_length=1000)
    """Patterns of commands that run unasked on a host, such as `git status`."""
    safe_bins: tuple[Program, ...] | None = Field(default=None, max_length=100)
    """Programs that run unasked on a host as filters of their standard input. Unset, those that
    are known to be safe."""
    node: str | None = Field(default=None, max_length=200)
    """Id or name of the node that runs commands of host `node`; unset, the only one connected."""


class ExecConfig(AgentExec):
    """Commands of all agents."""

    host: Host = "sandbox"
    """Machine that runs commands: `sandbox`, `gateway` (this machine) or `node`."""
    timeout_sec: float = Field(default=1800.0, gt=0, le=86_400)
    """Seconds after which a command is ended, where the call names no limit."""
    background_ms: int = Field(default=10_000, ge=10, le=120_000)
    """Milliseconds after which a call returns and its command goes on in the background."""
    cleanup_ms: int = Field(default=1_800_000, ge=60_000, le=10_800_000)
    """Milliseconds for which a command is kept after its end."""
    notify_on_exit: bool = True
    """Starts a turn at the end of a command in the background, unless the agent has seen it."""
