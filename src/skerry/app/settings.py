"""The present configuration, and changes to it while the gateway runs."""

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
    """Holds the present configuration; read `config` at each use.

    Implements `gateway.configuration.Configuration`.
    """

    def __init__(
        self, loaded: Loaded, environ: Mapping[str, str], clock: Clock | None = None
    ) -> None:
        self.present = PresentConfig(loaded.config)
        self.broken: ConfigInvalidError | None = loaded.broken
        self.environ: dict[str, str] = dict(loaded.expanded.environ)
        """The environment with the variables of the file; updated with the file."""
        self.hash_key = secrets.token_bytes(32)
        self.overrides: dict[KeyPath, JSON] = {}
        """Values that override those of the file until the next start."""
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
        """Returns the expanded file of the present configuration."""
        return self._loaded.expanded

    @property
    def is_first(self) -> bool:
        """Returns True when the token was created at this start."""
        return self._loaded.is_first

    @property
    def revision(self) -> str:
        """Returns the hash of the present configuration, with the included files."""
        return self.revision_of(self._loaded.expanded)

    def revision_of(self, expanded: Expanded) -> str:
        """Returns the hash of an expanded file, without its metadata."""
        tree = {key: value for key, value in expanded.merged.items() if key != META}
        return keyed_hash(self.hash_key, repr(tree))

    @property
    def pending(self) -> list[str]:
        """Returns the keys that changed since the start and need a restart."""
        now = self._loaded.expanded.merged
        changed = [path for path in changes(self._started_with, now) if path[0] != META]
        if self.config.gateway.reload.mode is ReloadMode.RESTART:
            return [show_key_path(path) for path in changed]
        return needs_restart(changed)

    @property
    def restart(self) -> str:
        """Returns `none`, `automatic` for a due restart, or `needed` when a person must do it."""
        if not self.pending:
            return "none"
        return "automatic" if self.config.gateway.reload.mode.restarts else "needed"

    @property
    def files(self) -> tuple[Path, ...]:
        """Returns the configuration file and the included files."""
        return (self.config.path, *self._loaded.expanded.files)

    @property
    def outdated(self) -> bool:
        """Returns True when the file may differ from the present configuration."""
        if self._loaded.expanded.files:
            return True
        try:
            return source.read_bytes(self.config.path)[0] != self._loaded.source.data
        except (OSError, ConfigInvalidError):
            return self._loaded.source.exists

    def on_applied(self, listener: Callable[[Applied], None]) -> None:
        """Calls `listener` after each change of the file, with the changed keys."""
        self._apply_listeners.append(listener)

    def on_change(self, listener: Callable[[Config], None]) -> None:
        """Calls `listener` with each new configuration."""
        self._listeners.append(listener)

    def bound(self, port: int) -> None:
        """Sets the port on which the gateway listens; the system chooses it for port 0."""
        gateway = self.config.gateway.model_copy(update={"port": port})
        self.present.config = self.config.model_copy(update={"gateway": gateway})

    def started(self) -> None:
        """Stores the file of this start as the last good one."""
        if self.broken is None:
            keep_good(self._loaded.source, self._loaded.expanded)

    async def look(self) -> ConfigFile:
        """Reads and checks the file; returns its content and its faults."""
        return await anyio.to_thread.run_sync(self._look)

    async def change(self, values: Mapping[str, JSON]) -> None:
        """Writes values into the file and applies them.

        Options of the command line (port, address) still override them.

        Raises:
            ConfigError: the values are invalid or cannot be written; nothing changed.
        """

        def write() -> ConfigWriteResult:
            return set_values(self.config.path, values, author=self._author("model choice"))

        await self._apply(write)

    async def preview(self, values: Mapping[str, JSON]) -> Loaded:
        """Returns the configuration with the values applied, without writing it.

        Raises:
            ConfigError: the values are invalid, or clients may not set them.
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
        """Writes the tree that `edit` returns for the file, and applies it.

        Args:
            edit: Returns the new tree.
            by: Author, for the log of changes.
            remedy: Advice for a file with comments, which is not overwritten.
            also: Keys that may be changed in addition to those open to clients.

        Raises:
            ConfigError: the tree is invalid, cannot be written, or has changes that are not open to
                clients; nothing changed.
        """
        return await self._apply(
            lambda: rewrite(self.config.path, edit, self._author(by, also=also), remedy=remedy)
        )

    async def reload(self) -> Applied:
        """Reads and applies the file.

        Raises:
            ConfigInvalidError: the file is invalid. The present configuration is kept, and `broken`
                has the error.
        """
        try:
            return await self._apply(None)
        except ConfigInvalidError as error:
            self.broken = error
            raise

    async def override(self, overrides: Mapping[KeyPath, JSON]) -> None:
        """Replaces the overrides, which are effective until the next start.

        Raises:
            ConfigError: the values are invalid, or clients may not set them; nothing changed.
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
        async with self._changing:  # else the older of two files could be applied last
            with anyio.CancelScope(shield=True):  # a written file is applied also after a cancel
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
        """Returns the effective section `gateway`, most of which needs a restart."""
        new = config.gateway
        live = {"reload": new.reload, "control": new.control, "drain_seconds": new.drain_seconds}
        return self.config.gateway.model_copy(update=live)

    def _with_overrides(self, loaded: Loaded) -> Config:
        """Applies the overrides to a new file; drops them when they do not fit it."""
        try:
            return overridden(loaded, self.overrides)
        except ConfigError as error:
            logger.warning("the values of /debug are dropped: %s", error)
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
    """Returns True when a known provider is configured with another address than its own."""
    provider = known_provider(name)
    return provider is not None and str(address).rstrip("/") != provider.base_url


def check_secret(config: Config) -> None:
    """Checks that the secret which clients must present is set.

    Raises:
        ConfigError: `gateway.auth.mode` needs a secret that is missing.
    """
    auth = config.gateway.auth
    if auth.mode is not AuthMode.NONE and auth.secret is None:
        error = ConfigError(
            f"gateway.auth.mode is {auth.mode}, and gateway.auth.{auth.mode} is missing."
        )
        error.remedy = f"Set gateway.auth.{auth.mode}, or SKERRY_GATEWAY_{auth.mode.upper()}."
        raise error
