"""Section `commands`: who may give commands, and which of them are on."""

from typing import Annotated

from pydantic import Field

from skerry.config.base import OpenSection
from skerry.config.session import Person

Sender = Annotated[str, Field(min_length=1, max_length=256)]


class CommandsConfig(OpenSection):
    """Who may give commands, and which of them are on."""

    owner_allow_from: tuple[Person, ...] = Field(default=(), max_length=100)
    """What the owner is called on chat platforms, `channel:id`. Without it nobody there is."""
    allow_from: dict[str, tuple[Sender, ...]] | None = Field(default=None, max_length=100)
    """Who may give commands on each platform: its name, or `*` for those not named, and ids as the
    platform has them, with or without `channel:`, or `*` for everybody. Where it is set it alone
    decides, for the owner too."""
    use_access_groups: bool = True
    """Whether in groups only the owner, or whom `allowFrom` names, may give commands."""
    config: bool = False
    """Whether `/config` may show and change the configuration file."""
    debug: bool = False
    """Whether `/debug` may change the configuration until the next start."""
    restart: bool = True
    """Whether `/restart` may restart the gateway."""
