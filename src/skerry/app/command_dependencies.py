"""Dependencies of chat commands on the gateway."""

from collections.abc import Callable

from msgspec import Struct

from skerry.app.settings import Settings
from skerry.config.root import Config
from skerry.runtime.dispatcher import Dispatch


class CommandDependencies(Struct, frozen=True):
    """Dependencies of the chat commands."""

    config: Callable[[], Config]
    dispatcher: Dispatch
    settings: Settings | None = None
    """None where nothing keeps the configuration."""
    restart: Callable[[], None] | None = None
    """Ends the gateway so that it starts again, once what runs has ended."""
