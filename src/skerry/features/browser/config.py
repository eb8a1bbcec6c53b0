"""Section `browser`: the headless Chromium of agents."""

from typing import Literal

from pydantic import Field

from skerry.config.base import Section


class BrowserConfig(Section):
    """The tool `browser`."""

    enabled: bool = False
    """Offers the tool to the owner's agents."""
    executable_path: str | None = Field(default=None, min_length=1, max_length=4096)
    """Program of Chromium or Chrome; without it the first of `chromium`, `chromium-browser`,
    `google-chrome` and `google-chrome-stable` in PATH."""
    no_sandbox: bool = False
    """Starts Chromium without its own sandbox, which it needs as root and in some containers."""
    profile: Literal["ephemeral", "kept"] = "ephemeral"
    """Removes cookies and logins at the end of the browser, or keeps them for its next start."""
    max_tabs: int = Field(default=8, ge=1, le=32)
    """Maximum number of open tabs of an agent."""
    idle_minutes: float = Field(default=10.0, ge=0.01, le=1440)
    """Minutes without a call after which the browser is ended."""
    timeout_seconds: float = Field(default=30.0, ge=1, le=120)
    """Time limit of one call, including the load of a page."""
    snapshot_max_chars: int = Field(default=20_000, ge=1000, le=200_000)
    """Maximum characters of a snapshot."""
