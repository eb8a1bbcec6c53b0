"""The configuration in force, and the changes to it that a person makes while it runs."""

import logging
import secrets
from collections.abc import Callable, Mapping
from dataclasses import replace
from functools import partial
from pathlib import Path

import anyio
import anyio.to_thread

from skerry.config import source
from skerry.config.backup import keep_good
from skerry.config.client_view import keyed_hash
from skerry.config.expand import Expanded
from skerry.config.gateway import AuthMode, GatewayConfig
from skerry.config.load import Loaded, checked, load
from skerry.config.override import overridden
from skerry.config.paths import KeyPath, changes, show_key_path
from skerry.config.redact import JSON
from skerry.config.reload import ReloadMode
from skerry.config.reload_rules import needs_restart
from skerry.config.remote_write_policy import Pattern, guard
from skerry.config.root import Config, PresentConfig
from skerry.config.write import META, ConfigAuthor, ConfigWriteResult, Edit, rewrite, set_values
from skerry.gateway.configuration import Applied, ConfigFile
from skerry.infra.clock import Clock, SystemClock
from skerry.model.errors import ConfigError, ConfigInvalidError
from skerry.providers.builtin_providers import known_provider
from skerry.workspace.workspace_init import seed

logger = logging.getLogger(__name__)


class Settings:
    """Holds the present configuration; whoever needs it asks at each use.

    Implements `gateway.configuration.Configuration`.
    """

    def __init__(
        self, loaded: Loaded, environ: Mapping[str, str], clock: Clock | None = None
    ) -> None:
        self.present = PresentConfig(loaded.config)
        self.broken: ConfigInvalidError | None = loaded.broken
        self.environ: dict[str, str] = dict(loaded.expanded.environ)
        """The environment with the variables of the file; it follows the file."""
        self.hash_key = secrets.token_bytes(32)
        self.overrides: dict[KeyPath, JSON] = {}
        """Values that replace those of the file until the next start."""
        self._loaded = loaded
        self._environ = environ
        self._clock = clock or SystemClock()
        self._changing = anyio.Lock()
        self._listeners: list[Callable[[Config], None]] = []
        self._apply_listeners: list[Callable[[Applied], None]] = []
        self._started_with = loaded.expanded.merged

    @property
    def config(self) -> Config:
        """Returns the present configuration."""
        return self.present.config

    @property
    def expanded(self) -> Expanded:
        """Returns the expanded file that is in force."""
        return self._loaded.expanded

    @property
    def is_first(self) -> bool:
        """Tells whether the token was made for this start."""
        return self._loaded.is_first

    @property
    def revision(self) -> str:
        """Returns the hash of all that is in force, with the included files."""
        return self.revision_of(self._loaded.expanded)

    def revision_of(self, expanded: Expanded) -> str:
        """Returns the hash of all that a file means."""
        tree = {key: value for key, value in expanded.merged.items() if key != META}
        return keyed_hash(self.hash_key, repr(tree))

    @property
    def pending(self) -> list[str]:
        """Returns the places that differ from what the gateway started with and need a restart."""
        now = self._loaded.expanded.merged
        changed = [path for path in changes(self._started_with, now) if path[0] != META]
        if self.config.gateway.reload.mode is ReloadMode.RESTART:
            return [show_key_path(path) for path in changed]
        return needs_restart(changed)

    @property
    def restart(self) -> str:
        """Returns whether a restart is due: `none`, `automatic`, or `needed` from a person."""
        if not self.pending:
            return "none"
        return "automatic" if self.config.gateway.reload.mode.restarts else "needed"

    @property
    def files(self) -> tuple[Path, ...]:
        """Returns the file in force and those that it includes."""
        return (self.config.path, *self._loaded.expanded.files)

    @property
    def outdated(self) -> bool:
        """Returns whether the file may say something else than what is in force."""
        if self._loaded.expanded.files:
            return True
        try:
            return source.read_bytes(self.config.path)[0] != self._loaded.source.data
        except (OSError, ConfigInvalidError):
            return self._loaded.source.exists

    def on_applied(self, listener: Callable[[Applied], None]) -> None:
        """Calls `listener` with what each change of the file changed."""
        self._apply_listeners.append(listener)

    def on_change(self, listener: Callable[[Config], None]) -> None:
        """Calls `listener` with each new configuration."""
        self._listeners.append(listener)

    def bound(self, port: int) -> None:
        """Notes the port that the gateway really listens on; 0 let the system choose."""
        gateway = self.config.gateway.model_copy(update={"port": port})
        self.present.config = self.config.model_copy(update={"gateway": gateway})

    def started(self) -> None:
        """Keeps the file that the gateway started with as the last good one."""
        if self.broken is None:
            keep_good(self._loaded.source, self._loaded.expanded)

    async def look(self) -> ConfigFile:
        """Returns the file as it stands now, with what is wrong with it."""
        return await anyio.to_thread.run_sync(self._look)

    async def change(self, values: Mapping[str, JSON]) -> None:
        """Writes values into the file and uses them from now on.

        What the command line gave (port, address) stays as it is.

        Raises:
            ConfigError: they cannot be written or make no sense; nothing changed.
        """

        def write() -> ConfigWriteResult:
            return set_values(self.config.path, values, author=self._author("model choice"))

        await self._apply(write)

    async def preview(self, values: Mapping[str, JSON]) -> Loaded:
        """Returns the configuration with the values applied; nothing is written.

        Raises:
            ConfigError: they make no sense, or are not for clients.
        """

        def look() -> Loaded:
            author = replace(self._author("model choice"), dry=True)
            result = set_values(self.config.path, values, author=author)
            return checked(result.source, self._environ, self.config.state_dir)

        return await anyio.to_thread.run_sync(look)

    async def edit(
        self,
        edit: Edit,
        by: str,
        remedy: str = "Make it in an editor.",
        *,
        also: tuple[Pattern, ...] = (),
    ) -> Applied:
        """Writes the tree that `edit` makes of the file, and uses it from now on.

        Args:
            edit: Makes it.
            by: Who asks, for the log of changes.
            remedy: What a person does where the file has comments, which are not written over.
            also: Keys that it may change besides what clients may.

        Raises:
            ConfigError: it cannot be written, makes no sense, or is not for clients; nothing
                changed.
        """
        return await self._apply(
            lambda: rewrite(self.config.path, edit, self._author(by, also=also), remedy=remedy)
        )

    async def reload(self) -> Applied:
        """Uses the file as it stands from now on.

        Raises:
            ConfigInvalidError: it is broken; what is in force stays, and `broken` says why.
        """
        try:
            return await self._apply(None)
        except ConfigInvalidError as error:
            self.broken = error
            raise

    async def override(self, overrides: Mapping[KeyPath, JSON]) -> None:
        """Lets these values hold until the next start, and no earlier ones.

        Raises:
            ConfigError: they make no sense, or are not for clients; nothing changed.
        """
        async with self._changing:
            config = overridden(self._loaded, overrides)
            self.overrides = dict(overrides)
            self._use(config)

    def _use(self, config: Config) -> None:
        self.present.config = config.model_copy(update={"gateway": self._gateway(config)})
        for listener in self._listeners:
            listener(self.config)

    def _author(self, by: str, *, also: tuple[Pattern, ...] = ()) -> ConfigAuthor:
        directory = self.config.state_dir
        may = partial(guard, borrows=_borrows, also=also)
        return ConfigAuthor(by, self._environ, directory, self._clock, may, strict=True)

    async def _apply(self, write: Callable[[], ConfigWriteResult] | None) -> Applied:
        async with self._changing:  # else the older of two could be read first and used last
            with anyio.CancelScope(shield=True):  # what is written is used, whoever hangs up
                loaded = await anyio.to_thread.run_sync(self._write, write)
            before, self._loaded = self._loaded, loaded
            for issue in set(loaded.warnings) - set(before.warnings):
                logger.warning("%s", issue)
            self.broken = None
            self.environ.update(loaded.expanded.environ)
            for name in self.environ.keys() - loaded.expanded.environ.keys():
                del self.environ[name]
            self._use(self._with_overrides(loaded))
        key_paths = changes(before.expanded.merged, loaded.expanded.merged)
        changed = tuple(path for path in key_paths if path[0] != META)
        applied = Applied(loaded.source, loaded.expanded, changed)
        if changed:
            for listener in self._apply_listeners:
                listener(applied)
        return applied

    def _gateway(self, config: Config) -> GatewayConfig:
        """Returns the effective section: most of it was fixed at the start."""
        new = config.gateway
        live = {"reload": new.reload, "control": new.control, "drain_seconds": new.drain_seconds}
        return self.config.gateway.model_copy(update=live)

    def _with_overrides(self, loaded: Loaded) -> Config:
        """Applies the overrides to a new file; those that no longer fit it are dropped."""
        try:
            return overridden(loaded, self.overrides)
        except ConfigError as error:
            logger.warning("what /debug set is dropped: %s", error)
            self.overrides = {}
            return loaded.config

    def _write(self, write: Callable[[], ConfigWriteResult] | None) -> Loaded:
        if write is not None:
            write()
        loaded = load(self._environ, self.config.state_dir, self.config.path)
        for agent in loaded.config.agents.ids:
            seed(loaded.config.workspace(agent), skip=loaded.config.agents.defaults.skip_bootstrap)
        keep_good(loaded.source, loaded.expanded)
        return loaded

    def _look(self) -> ConfigFile:
        path = self.config.path
        try:
            read = source.read(path)
        except ConfigInvalidError as error:
            return ConfigFile(source.Source(path), None, error.issues, exists=True)
        try:
            loaded = checked(read, self._environ, self.config.state_dir, fetch=False)
        except ConfigInvalidError as error:
            return ConfigFile(read, None, error.issues, exists=read.exists)
        return ConfigFile(read, loaded, (), exists=read.exists)


def _borrows(name: str, address: object) -> bool:
    """Returns whether the provider, known by its name, stands at an address that is not its own."""
    provider = known_provider(name)
    return provider is not None and str(address).rstrip("/") != provider.base_url


def check_secret(config: Config) -> None:
    """Refuses to start where clients are to show what is not set: nobody could come in.

    Raises:
        ConfigError: they are, and it is not.
    """
    auth = config.gateway.auth
    if auth.mode is not AuthMode.NONE and auth.secret is None:
        error = ConfigError(
            f"gateway.auth.mode is {auth.mode}, and gateway.auth.{auth.mode} is missing."
        )
        error.remedy = f"Set gateway.auth.{auth.mode}, or SKERRY_GATEWAY_{auth.mode.upper()}."
        raise error
