"""Section `hooks`: folders with a HOOK.md, built-in hooks, and webhooks."""

from pathlib import Path

from pydantic import Field

from skerry.config.base import Section
from skerry.config.webhooks import WebhooksConfig

BOOT_MD = "boot-md"
"""The only hook that is enabled by default."""


class HookEntryConfig(Section):
    """One hook, by its name."""

    enabled: bool = True
    """Enables the hook."""
    sha256: str | None = Field(default=None, pattern=r"^[0-9a-f]{64}$")
    """SHA-256 of its handler.py. If set, only a file with this hash is loaded; a hook in a
    workspace requires it."""


class HookLoadConfig(Section):
    """Directories of hooks in addition to `hooks` in the state directory and in workspaces."""

    extra_dirs: tuple[Path, ...] = Field(default=(), max_length=16)
    """Directories whose subfolders are hooks; relative to the configuration file."""


class InternalHooksConfig(Section):
    """Hooks that run inside the gateway."""

    enabled: bool = True
    """Enables the hooks of this section."""
    load: HookLoadConfig = HookLoadConfig.model_construct()
    entries: dict[str, HookEntryConfig] = Field(default_factory=dict)
    """Settings of hooks by name. A hook without an entry is disabled, except `boot-md`."""

    def takes_part(self, name: str) -> bool:
        """Returns whether the hook is enabled."""
        entry = self.entries.get(name)
        return self.enabled and (entry.enabled if entry is not None else name == BOOT_MD)


class HooksConfig(WebhooksConfig):
    """Webhooks, and folders of hooks: third-party code that runs inside the gateway."""

    internal: InternalHooksConfig = InternalHooksConfig.model_construct()
