"""Section `tools`: which tools anybody but the owner may use."""

from functools import cached_property
from typing import Annotated

from pydantic import Field

from skerry.config.base import Section
from skerry.config.exec import ExecConfig
from skerry.config.tools_web import WebToolsConfig

ToolName = Annotated[str, Field(min_length=1, max_length=64)]


class GuestTools(Section):
    """Tools of whoever is not the owner: strangers, and others in groups."""

    allow: tuple[ToolName, ...] = Field(default=(), max_length=100)
    """Names of tools that everybody who may write may use, such as `session_search`. `read` opens
    the files of the workspace, less the memory, to them; `write` and `edit` open them for changes,
    less what every later run reads. The memory's own tools stay the owner's."""

    @cached_property
    def granted(self) -> frozenset[str]:
        """Returns the names."""
        return frozenset(self.allow)


class ToolsConfig(Section):
    """Tools of all agents."""

    exec: ExecConfig = ExecConfig.model_construct()
    """Commands that agents run."""
    guests: GuestTools = GuestTools.model_construct()
    web: WebToolsConfig = WebToolsConfig.model_construct()
