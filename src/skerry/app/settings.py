"""The configuration in force, and the changes to it that a person makes while it runs."""

import secrets
from collections.abc import Callable, Mapping
from functools import partial

import anyio
import anyio.to_thread

from skerry.agent.seeding import seed
from skerry.config import source
from skerry.config.backup import keep_good
from skerry.config.control import guard
from skerry.config.expand import Expanded
from skerry.config.load import Loaded, load
from skerry.config.paths import changes
from skerry.config.redact import JSON
from skerry.config.root import Config
from skerry.config.wire import keyed_hash
from skerry.config.write import META, Author, Edit, Written, rewrite, set_values
from skerry.gateway.configuration import Applied, Look
from skerry.infra.clock import Clock, SystemClock
from skerry.model.errors import ConfigInvalidError
from skerry.providers.known import known_provider


class Settings:
    """Holds the present configuration; whoever needs it asks at each use.

    Implements `gateway.configuration.Configuration`.
    """

    def __init__(
        self, loaded: Loaded, environ: Mapping[str, str], clock: Clock | None = None
    ) -> None:
        self.config: Config = loaded.config
        self.broken: ConfigInvalidError | None = loaded.broken
        self.environ: dict[str, str] = dict(loaded.expanded.environ)
        """The environment with the variables of the file; it follows the file."""
        self.hash_key = secrets.token_bytes(32)
        self._loaded = loaded
        self._given = environ
        self._clock = clock or SystemClock()
        self._changing = anyio.Lock()
        self._listeners: list[Callable[[Config], None]] = []

    @property
    def expanded(self) -> Expanded:
        """Return what the file in force means."""
        return self._loaded.expanded

    @property
    def revision(self) -> str:
        """Return the hash of all that is in force, with the included files."""
        return self.revision_of(self._loaded.expanded)

    def revision_of(self, expanded: Expanded) -> str:
        """Return the hash of all that a file means."""
        tree = {key: value for key, value in expanded.merged.items() if key != META}
        return keyed_hash(self.hash_key, repr(tree))

    def on_change(self, listener: Callable[[Config], None]) -> None:
        """Call `listener` with each new configuration."""
        self._listeners.append(listener)

    def bound(self, port: int) -> None:
        """Note the port that the gateway really listens on; 0 let the system choose."""
        gateway = self.config.gateway.model_copy(update={"port": port})
        self.config = self.config.model_copy(update={"gateway": gateway})

    def started(self) -> None:
        """Keep the file that the gateway started with as the last good one."""
        if self.broken is None:
            keep_good(self._loaded.source, self._loaded.expanded)

    async def look(self) -> Look:
        """Return the file as it stands now, with what is wrong with it."""
        return await anyio.to_thread.run_sync(self._look)

    async def change(self, values: Mapping[str, JSON]) -> None:
        """Write values into the file and use them from now on.

        What the command line gave (port, address) stays as it is.

        Raises:
            ConfigError: they cannot be written or make no sense; nothing changed.
        """

        def write() -> Written:
            return set_values(self.config.path, values, author=self._author("model choice"))

        await self._apply(write)

    async def edit(self, edit: Edit, by: str) -> Applied:
        """Write the tree that `edit` makes of the file, and use it from now on.

        Raises:
            ConfigError: it cannot be written, makes no sense, or is not for clients; nothing
                changed.
        """
        return await self._apply(lambda: rewrite(self.config.path, edit, self._author(by)))

    async def reload(self) -> Applied:
        """Use the file as it stands from now on.

        Raises:
            ConfigInvalidError: it is broken; what is in force stays.
        """
        return await self._apply(None)

    def _author(self, by: str) -> Author:
        directory = self.config.state_dir
        may = partial(guard, borrows=_borrows)
        return Author(by, self._given, directory, self._clock, may, strict=True)

    async def _apply(self, write: Callable[[], Written] | None) -> Applied:
        async with self._changing:  # else the older of two could be read first and used last
            with anyio.CancelScope(shield=True):  # what is written is used, whoever hangs up
                loaded = await anyio.to_thread.run_sync(self._write, write)
            before, self._loaded = self._loaded, loaded
            self.broken = None
            self.environ.update(loaded.expanded.environ)
            for name in self.environ.keys() - loaded.expanded.environ.keys():
                del self.environ[name]
            self.config = loaded.config.model_copy(update={"gateway": self.config.gateway})
            for listener in self._listeners:
                listener(self.config)
        places = changes(before.expanded.merged, loaded.expanded.merged)
        changed = tuple(place for place in places if place[0] != META)
        return Applied(loaded.source, loaded.expanded, changed)

    def _write(self, write: Callable[[], Written] | None) -> Loaded:
        if write is not None:
            write()
        loaded = load(self._given, self.config.state_dir, self.config.path)
        for agent in loaded.config.agents.ids:
            seed(loaded.config.workspace(agent), skip=loaded.config.agents.defaults.skip_bootstrap)
        keep_good(loaded.source, loaded.expanded)
        return loaded

    def _look(self) -> Look:
        path = self.config.path
        try:
            read = source.read(path)
        except ConfigInvalidError as error:
            return Look(source.Source(path), None, error.issues, exists=True)
        try:
            loaded = load(self._given, self.config.state_dir, path)
        except ConfigInvalidError as error:
            return Look(read, None, error.issues, exists=read.exists)
        return Look(read, loaded, (), exists=read.exists)


def _borrows(name: str, address: object) -> bool:
    """Return whether the provider, known by its name, stands at an address that is not its own."""
    known = known_provider(name)
    return known is not None and str(address).rstrip("/") != known.base_url
