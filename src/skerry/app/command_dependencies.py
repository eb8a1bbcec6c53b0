"""Dependencies of chat commands on the gateway."""

from collections.abc import Callable

from msgspec import Struct

from skerry.app.settings import Settings
from skerry.commands.table import CommandError
from skerry.config.root import Config
from skerry.runtime.dispatcher import Dispatch


class Desk(Struct):
    """Dependencies of the commands; the dispatcher is made after them."""

    config: Callable[[], Config]
    dispatch: Dispatch | None = None
    settings: Settings | None = None
    restart: Callable[[], None] | None = None
    """Ends the gateway so that it starts again, once what runs has ended."""

    @property
    def dispatcher(self) -> Dispatch:
        """Return the dispatcher.

        Raises:
            CommandError: the gateway has not started.
        """
        if self.dispatch is None:
            raise CommandError("The gateway is still starting.")
        return self.dispatch
