"""Section `commands`: who may give commands."""

from pydantic import Field

from skerry.config.base import OpenSection
from skerry.config.session import Person


class CommandsConfig(OpenSection):
    """Who may give commands."""

    owner_allow_from: tuple[Person, ...] = Field(default=(), max_length=100)
    """What the owner is called on chat platforms, `channel:id`. Without it nobody there is."""
