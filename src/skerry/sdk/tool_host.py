"""Parts of a gateway that the tools of features work with."""

from collections.abc import Awaitable, Callable, Mapping
from pathlib import Path
from typing import Any

from msgspec import Struct

from skerry.config.root import Config
from skerry.infra.clock import Clock
from skerry.model.errors import StateError
from skerry.model.ids import AgentId, SessionKey
from skerry.ports.allowlist import Allowlist
from skerry.ports.dispatch import Dispatcher
from skerry.runtime.allowlist import StoredAllowlist
from skerry.store import Store


async def _refuse(method: str, _: Mapping[str, Any], __: tuple[str, ...]) -> Any:
    raise StateError(f"{method} needs a running gateway.")


def _tell_nobody(_: SessionKey, __: str) -> None:
    """Drops a notice: no gateway runs."""


class ToolHost(Struct, frozen=True, kw_only=True):
    """Parts of a running gateway. The defaults are those of a host without a gateway."""

    config: Callable[[], Config]
    """Returns the present configuration."""
    store: Store
    environ: Mapping[str, str]
    """Environment of the gateway, with the variables that the configuration file sets."""
    clock: Clock
    notify: Callable[[SessionKey, str], None] = _tell_nobody
    """Queues a system event that the next run of the session reads."""

    call: Callable[[str, Mapping[str, Any], tuple[str, ...]], Awaitable[Any]] = _refuse
    """Calls a gateway method with parameters and scopes, for the owner; returns the payload.

    Raises:
        ToolError: the method refused.
    """
    dispatcher: Dispatcher | None = None
    """Takes requests to run; None where no gateway runs."""
    redact: Callable[[str], str] = str
    """Takes secrets out of text."""

    @property
    def allowlist(self) -> Allowlist:
        """Returns the patterns of commands that people allow for good."""
        return StoredAllowlist(self.store, self.clock, self.redact)

    @property
    def state_dir(self) -> Path:
        """Returns the state directory."""
        return self.config().state_dir

    def workspace(self, agent: AgentId) -> Path:
        """Returns the workspace of an agent."""
        return self.config().workspace(agent)
