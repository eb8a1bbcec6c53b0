"""Base classes of every section of the configuration file."""

import re
from typing import ClassVar

from pydantic import BaseModel, ConfigDict
from pydantic.alias_generators import to_camel


class Section(BaseModel):
    """A part of the file: camelCase there, snake_case here; an unknown key is an error.

    For sections in which a typo could open something: gateway, session, tools, channels, plugins,
    hooks, and the sandbox and tools of an agent.

    Only what is read gets its validator: one for the whole file, when it is checked, and none for
    each part. So a default is `model_construct()`, as it stands, for a call would check it.
    """

    free_names: ClassVar[re.Pattern[str] | None] = None
    """Keys beside the fields that the section takes itself."""

    model_config = ConfigDict(
        frozen=True,
        defer_build=True,
        extra="forbid",
        alias_generator=to_camel,
        populate_by_name=True,
    )

    @classmethod
    def for_key(cls, key: str) -> "type[Section]":
        """Returns the class of the section with this key in a mapping; the same for most keys."""
        del key
        return cls


class OpenSection(Section):
    """A section in which an unknown key is kept and warned about, not refused."""

    model_config = ConfigDict(extra="allow")
