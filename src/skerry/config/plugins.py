"""Section `plugins`: which plugin files are loaded, and what each may do."""

from pathlib import Path
from typing import Any

from pydantic import Field, field_validator

from skerry.config.base import Section

ID_PATTERN = r"[a-z0-9][a-z0-9_-]{0,63}"


class PluginHooksConfig(Section):
    """Which hooks a plugin may use; both hold once you named its file."""

    allow_conversation_access: bool = True
    """Whether it may read what is said: model, prompt, message and agent hooks."""
    allow_prompt_injection: bool = True
    """Whether it may change what the model is told: `before_prompt_build`, `before_agent_start`."""


class PluginEntryConfig(Section):
    """One plugin, by its id: the name of its file without `.py`."""

    enabled: bool = True
    """Whether it is loaded."""
    sha256: str | None = Field(default=None, pattern=r"^[0-9a-f]{64}$")
    """The SHA-256 of its file. With it nothing else is loaded; a file in a workspace needs it."""
    hooks: PluginHooksConfig = PluginHooksConfig.model_construct()
    config: dict[str, Any] = Field(default_factory=dict)
    """What the plugin itself is given, as it documents it."""


class PluginLoadConfig(Section):
    """Where plugins are."""

    paths: tuple[Path, ...] = Field(default=(), max_length=64)
    """Python files, each with a function `register(api)`; relative to the configuration file."""

    @field_validator("paths")
    @classmethod
    def _python_files(cls, value: tuple[Path, ...]) -> tuple[Path, ...]:
        for path in value:
            if path.suffix != ".py":
                message = f"{path} is no Python file"
                raise ValueError(message)
        return value


class PluginSlotsConfig(Section):
    """Places that one plugin alone can take."""

    memory: str = Field(default="memory-core", pattern=rf"^{ID_PATTERN}$")
    """Whose memory it is: `memory-core` (our own), `none`, or the id of a plugin that brings one;
    with a plugin's ours is not there at all."""


class PluginsConfig(Section):
    """Code of others that runs inside the gateway, with all that the gateway may do."""

    enabled: bool = True
    """Whether any plugin is loaded."""
    load: PluginLoadConfig = PluginLoadConfig.model_construct()
    deny: tuple[str, ...] = ()
    """Ids that are never loaded."""
    allow: tuple[str, ...] = ()
    """Where not empty, the only ids that are loaded."""
    slots: PluginSlotsConfig = PluginSlotsConfig.model_construct()
    entries: dict[str, PluginEntryConfig] = Field(default_factory=dict)
    """What is said of each plugin, by its id."""
