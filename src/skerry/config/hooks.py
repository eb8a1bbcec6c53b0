"""Section `hooks`: folders with a HOOK.md, our own hooks, and webhooks."""

from pathlib import Path

from pydantic import Field

from skerry.config.base import Section
from skerry.config.webhooks import WebhooksConfig

BOOT_MD = "boot-md"
"""The one hook that is on until somebody switches it off."""


class HookEntryConfig(Section):
    """One hook, by its name."""

    enabled: bool = True
    """Enables the hook."""
    sha256: str | None = Field(default=None, pattern=r"^[0-9a-f]{64}$")
    """The SHA-256 of its handler.py. With it nothing else is loaded; a hook in a workspace needs
    it."""


class HookLoadConfig(Section):
    """Directories of hooks besides `hooks` in the state directory and in workspaces."""

    extra_dirs: tuple[Path, ...] = Field(default=(), max_length=16)
    """Directories whose folders are hooks; relative to the configuration file."""


class InternalHooksConfig(Section):
    """Hooks that run inside the gateway."""

    enabled: bool = True
    """Enables the hooks of this section."""
    load: HookLoadConfig = HookLoadConfig.model_construct()
    entries: dict[str, HookEntryConfig] = Field(default_factory=dict)
    """Settings of each hook, by its name. A hook that is not named is off, except `boot-md`."""

    def takes_part(self, name: str) -> bool:
        """Returns whether the hook is switched on."""
        entry = self.entries.get(name)
        return self.enabled and (entry.enabled if entry is not None else name == BOOT_MD)


class HooksConfig(WebhooksConfig):
    """Webhooks, and folders of hooks: code of others that runs inside the gateway."""

    internal: InternalHooksConfig = InternalHooksConfig.model_construct()
