"""Section `commands`: the senders who may give commands, and the enabled commands."""

from typing import Annotated, Literal

from pydantic import Field

from skerry.config.base import OpenSection
from skerry.config.session import Person

Sender = Annotated[str, Field(min_length=1, max_length=256)]


class CommandsConfig(OpenSection):
    """Permission to give commands, and the commands that are enabled."""

    owner_allow_from: tuple[Person, ...] = Field(default=(), max_length=100)
    """Ids of the owner on chat platforms, as `channel:id`. When empty, no sender on a platform is
    the owner."""
    allow_from: dict[str, tuple[Sender, ...]] | None = Field(default=None, max_length=100)
    """Senders who may give commands, by platform: the key is its name, or `*` for all platforms
    without an entry; the values are ids on the platform, with or without `channel:`, or `*` for
    everybody. When set, only this list decides, also for the owner."""
    use_access_groups: bool = True
    """Restricts commands in groups to the owner and to the senders in `allowFrom`."""
    native: bool | Literal["auto"] = "auto"
    """Adds the commands to the menus of platforms that have them, such as Telegram; `false` does
    not."""
    native_skills: bool | Literal["auto"] = "auto"
    """Adds the commands of the default agent's skills to these menus; `false` does not."""
    config: bool = False
    """Lets `/config` show and change the configuration file."""
    debug: bool = False
    """Lets `/debug` change the configuration until the next start."""
    restart: bool = True
    """Lets `/restart` restart the gateway."""
