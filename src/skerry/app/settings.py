"""The configuration in force, and the changes to it that a person makes while it runs."""

from collections.abc import Callable, Mapping

import anyio
import anyio.to_thread

from skerry.config.load import Loaded, load
from skerry.config.redact import JSON
from skerry.config.root import Config
from skerry.config.write import set_values


class Settings:
    """Holds the present configuration; whoever needs it asks at each use."""

    def __init__(self, loaded: Loaded, environ: Mapping[str, str]) -> None:
        self.config: Config = loaded.config
        self._environ = environ
        self._changing = anyio.Lock()
        self._listeners: list[Callable[[Config], None]] = []

    def on_change(self, listener: Callable[[Config], None]) -> None:
        """Call `listener` with each new configuration."""
        self._listeners.append(listener)

    def bound(self, port: int) -> None:
        """Note the port that the gateway really listens on; 0 let the system choose."""
        gateway = self.config.gateway.model_copy(update={"port": port})
        self.config = self.config.model_copy(update={"gateway": gateway})

    async def change(self, changes: Mapping[str, JSON]) -> None:
        """Write values into the file and use them from now on.

        What the command line gave (port, address) stays as it is.

        Raises:
            ConfigError: they cannot be written or make no sense; nothing changed.
        """
        async with self._changing:  # else the older of two could be read first and used last
            loaded = await anyio.to_thread.run_sync(self._write, changes)
            self.config = loaded.config.model_copy(update={"gateway": self.config.gateway})
            for listener in self._listeners:
                listener(self.config)

    def _write(self, changes: Mapping[str, JSON]) -> Loaded:
        set_values(self.config.path, changes)
        return load(self._environ, self.config.state_dir, self.config.path)
