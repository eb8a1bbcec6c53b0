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
    """None where no gateway runs."""
    restart: Callable[[], None] | None = None
    """Restarts the gateway after running work has ended; None where no gateway runs."""
