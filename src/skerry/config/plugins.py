"""Section `plugins`: the plugins that are loaded, and their permissions."""

from pathlib import Path
from typing import Any

from pydantic import Field, field_validator

from skerry.config.base import Section
from skerry.policy.tool_names import CORE, MEMORY_TOOLS

ID_PATTERN = r"[a-z0-9][a-z0-9_-]{0,63}"


class PluginHooksConfig(Section):
    """Hooks that a plugin may use; both are enabled once the plugin's file is named."""

    allow_conversation_access: bool = True
    """Lets the plugin read conversations: model, prompt, message and agent hooks."""
    allow_prompt_injection: bool = True
    """Lets the plugin change the prompt: `before_prompt_build`, `before_agent_start`."""


class PluginEntryConfig(Section):
    """One plugin, by its id: the name of its file without `.py`, or of its folder."""

    enabled: bool = True
    """Enables the plugin."""
    sha256: str | None = Field(default=None, pattern=r"^[0-9a-f]{64}$")
    """SHA-256 of its file or folder. If set, only a plugin with this hash is loaded; a file in a
    workspace requires it."""
    hooks: PluginHooksConfig = PluginHooksConfig.model_construct()
    config: dict[str, Any] = Field(default_factory=dict)
    """Configuration passed to the plugin, in the form that the plugin documents."""


class PluginLoadConfig(Section):
    """Paths of plugins."""

    paths: tuple[Path, ...] = Field(default=(), max_length=64)
    """Python files, or folders with `__init__.py`, each with a function `register(api)`; relative
    to the configuration file."""

    @field_validator("paths")
    @classmethod
    def _python_files(cls, value: tuple[Path, ...]) -> tuple[Path, ...]:
        for path in value:
            if path.suffix not in {".py", ""}:
                message = f"{path} is neither a Python file nor a folder"
                raise ValueError(message)
        return value


class PluginSlotsConfig(Section):
    """Slots that only one plugin can fill."""

    memory: str = Field(default="memory-core", pattern=rf"^{ID_PATTERN}$")
    """Plugin that provides memory: `memory-core` (built in), `none`, or the id of another plugin;
    then the built-in memory is not loaded."""
    memory_fallback: bool = False
    """Lets the built-in memory answer a search if the plugin in the slot is not loaded or fails;
    each such answer has a note."""


class PluginsConfig(Section):
    """Third-party code that runs inside the gateway with all its permissions."""

    enabled: bool = True
    """Enables plugins."""
    load: PluginLoadConfig = PluginLoadConfig.model_construct()
    deny: tuple[str, ...] = ()
    """Ids that are never loaded."""
    allow: tuple[str, ...] = ()
    """Ids of the plugins that may be loaded; an empty list allows all."""
    slots: PluginSlotsConfig = PluginSlotsConfig.model_construct()
    entries: dict[str, PluginEntryConfig] = Field(default_factory=dict)
    """Settings of each plugin, by its id."""

    @property
    def named(self) -> frozenset[str]:
        """Returns the ids of the plugins in this section, and of a plugin in the memory slot."""
        files = (path.stem if path.suffix else path.name for path in self.load.paths)
        ids = frozenset({*self.entries, *self.allow, *files, self.slots.memory}) - CORE
        return ids if self.slots.memory in {"memory-core", "none"} else ids | MEMORY_TOOLS
