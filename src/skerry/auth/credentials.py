"""The credentials of all agents: their profiles, the next one to use, and its secret."""

import logging
import os
from collections import OrderedDict
from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import Final

import anyio.to_thread
import httpx2

from skerry.auth.cooldowns import Cooldowns
from skerry.auth.profiles import (
    FILE,
    SECRETS,
    CredentialKind,
    Profile,
    Profiles,
    ordered,
    pinned,
    read,
)
from skerry.auth.refresh import Renewal
from skerry.auth.vault import SealedVault
from skerry.config.auth import PASSPHRASE
from skerry.config.root import Config
from skerry.infra.clock import Clock
from skerry.model.errors import CredentialError, ModelAuthError
from skerry.model.ids import AgentId

logger = logging.getLogger(__name__)

MAX_SESSIONS: Final = 10_000
"""Limit of sessions whose profile is stored; the least recently used session is dropped."""

_FileStamp = tuple[int, int, int]


def vault_of(config: Config, environ: Mapping[str, str]) -> SealedVault:
    """Returns the vault of a state directory."""
    return SealedVault(config.state_dir / "credentials", environ.get(PASSPHRASE, ""))


def profiles_file(config: Config, agent: AgentId) -> Path:
    """Returns the path of an agent's file of profiles.

    Raises:
        CredentialError: the path is in a workspace, which tools and repositories can read.
    """
    path = config.agent_dir(agent) / FILE
    refuse_in_workspace(config, path)
    return path


def refuse_in_workspace(config: Config, path: Path) -> None:
    """Checks that a path for credentials is not in a workspace.

    Raises:
        CredentialError: the path is in a workspace.
    """
    resolved = path.resolve()
    for agent in config.agents.ids:
        workspace = config.workspace(agent).resolve()
        if resolved.is_relative_to(workspace):
            raise CredentialError(
                f"{path} lies in the workspace of {agent} ({workspace}).",
                "Credentials are never kept in a workspace: set another workspace, agentDir or"
                " SKERRY_STATE_DIR.",
            )


class Credentials:
    """Chooses among the profiles of an agent, then those of the default agent."""

    def __init__(
        self,
        config: Config,
        environ: Mapping[str, str],
        http: httpx2.AsyncClient,
        clock: Clock,
        cooldowns: Cooldowns | None = None,
    ) -> None:
        self.cooldowns = cooldowns or Cooldowns()
        self.clock = clock
        self.environ = environ
        self._http = http
        self._used: dict[str, int] = {}
        self._uses = 0
        self._sticky: OrderedDict[tuple[str, str], str] = OrderedDict()
        self.reconfigure(config)

    def reconfigure(self, config: Config) -> None:
        """Replaces the configuration; effective at the next choice."""
        self._config = config
        self._files: dict[AgentId, tuple[_FileStamp, Profiles]] = {}
        self._profiles_paths: dict[AgentId, Path | None] = {}
        self.vault = vault_of(config, self.environ)
        self._renewal = Renewal(self._http, self.vault, self.environ, self.clock)

    def profiles(self, agent: AgentId) -> Profiles:
        """Returns the profiles of the agent's own file; empty for an invalid file.

        The file is read again after a change; the check costs 2 us.
        """
        path = self._profiles_path(agent)
        if path is None:
            return _NONE
        try:
            stat = os.stat(path)  # noqa: PTH116 - on the way of every turn, four times as fast
        except OSError:
            return _NONE
        stamp = (stat.st_mtime_ns, stat.st_size, stat.st_ino)
        cached = self._files.get(agent)
        if cached is None or cached[0] != stamp:
            cached = self._files[agent] = stamp, self._read(path, agent)
        return cached[1]

    def _profiles_path(self, agent: AgentId) -> Path | None:
        if agent not in self._profiles_paths:
            try:
                self._profiles_paths[agent] = profiles_file(self._config, agent)
            except CredentialError as error:
                logger.warning("%s %s", error, error.remedy)
                self._profiles_paths[agent] = None
        return self._profiles_paths[agent]

    def _read(self, path: Path, agent: AgentId) -> Profiles:
        try:
            content = read(path, agent)
        except CredentialError as error:
            logger.warning("%s %s", error, error.remedy)
            return _NONE
        for problem in content.problems:
            logger.warning("%s: %s", path, problem)
        return content

    def of(self, agent: AgentId, provider: str) -> list[Profile]:
        """Returns the profiles for a provider: the agent's own, then the default agent's."""
        by_id: dict[str, Profile] = {}
        for owner in dict.fromkeys((agent, self._config.agents.default_id)):
            for profile in self.profiles(owner).profiles.values():
                if profile.provider == provider:
                    by_id.setdefault(profile.id, profile)
        return list(by_id.values())

    def providers(self, agent: AgentId) -> set[str]:
        """Returns the providers for which the agent has a profile."""
        default = self._config.agents.default_id
        profile_lists = (self.profiles(agent), self.profiles(default))
        return {profile.provider for each in profile_lists for profile in each.profiles.values()}

    def explicit(self, agent: AgentId, provider: str) -> Sequence[str]:
        """Returns the configured order of profiles, from the agent's file or the configuration."""
        return self.profiles(agent).order.get(provider) or self._config.auth.order.get(provider, ())

    def queue(
        self, agent: AgentId, provider: str, model: str, session_id: str, pin: str
    ) -> list[Profile]:
        """Returns the profiles for a model in the order of their use.

        Raises:
            ModelAuthError: `pin` is not the name of a profile.
        """
        available = self.of(agent, provider)
        if pin:
            profile = pinned(available, pin)
            if profile is None:
                raise _no_profile(pin, provider, available)
            return [profile]
        if not available or (len(available) < 2 and not self.explicit(agent, provider)):  # noqa: PLR2004 - nothing to order
            return available
        queue = ordered(
            available,
            self.explicit(agent, provider),
            self._used,
            lambda profile: self._until(profile, model),
            self.clock.now_ms(),
            self._sticky.get((session_id, provider), ""),
        )
        return sorted(
            queue, key=lambda profile: (self._rests(profile, model), profile.owner != agent)
        )

    def _until(self, profile: Profile, model: str) -> int:
        row = self.cooldowns.longest((profile.key, model))
        return row.until if row is not None and row.stamp == profile.stamp else 0

    def _rests(self, profile: Profile, model: str) -> bool:
        return self._until(profile, model) > self.clock.now_ms()

    def used(self, profile: Profile, session_id: str) -> None:
        """Records a success of a profile: its session keeps it, other sessions prefer another."""
        self._uses += 1
        self._used[profile.key] = self._uses
        if session_id:
            key = session_id, profile.provider
            self._sticky[key] = profile.key
            self._sticky.move_to_end(key)
            if len(self._sticky) > MAX_SESSIONS:
                self._sticky.popitem(last=False)

    async def secret(self, profile: Profile) -> str:
        """Returns the secret for the provider, renewed if necessary.

        Raises:
            ModelAuthError: the secret is missing or has expired.
            ModelError: the secret could not be renewed now.
        """
        if profile.kind is CredentialKind.OAUTH:
            directory = self._config.agent_dir(profile.owner)
            return await self._renewal.access(profile, directory)
        expires = profile.expires
        if (
            profile.kind is CredentialKind.TOKEN
            and expires is not None
            and expires <= self.clock.now_ms()
        ):
            error = ModelAuthError(f"The token of {profile.id} has expired.")
            error.remedy = f"skerry auth add {profile.provider} --type token"
            raise error
        name = SECRETS[profile.kind][0]
        try:
            if profile.entry(name) is None:
                return profile.secret(name, self.environ, self.vault)
            return await anyio.to_thread.run_sync(profile.secret, name, self.environ, self.vault)
        except CredentialError as error:
            failed = ModelAuthError(str(error))
            failed.remedy = error.remedy
            raise failed from error


_NONE: Final = Profiles()


def _no_profile(pin: str, provider: str, profiles: Sequence[Profile]) -> ModelAuthError:
    ids = ", ".join(profile.id for profile in profiles) or "none"
    error = ModelAuthError(f"{provider} has no profile {pin!r}. Profiles: {ids}.")
    error.remedy = "skerry auth list"
    return error
