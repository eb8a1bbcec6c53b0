"""Stores, lists, orders and removes credentials in the files that a running gateway reads."""

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field, replace
from typing import Any, Final

from skerry.auth.credentials import profiles_file, refuse_in_workspace, vault_of
from skerry.auth.profiles import SECRETS, CredentialKind, Profile, Profiles, change, is_id, read
from skerry.config.load import load_good
from skerry.config.root import Config
from skerry.infra.clock import Clock
from skerry.model.errors import CredentialError, UnconfiguredAgentError
from skerry.model.ids import AgentId
from skerry.providers.builtin_providers import HOSTED_PROVIDERS, known_provider

LONGEST: Final = 16_384
"""Limit of a secret, in characters."""


@dataclass(frozen=True, slots=True)
class Entered:
    """A credential that a person enters."""

    provider: str
    name: str
    kind: CredentialKind
    secrets: Mapping[str, str] = field(repr=False)
    """Secrets by field name; each is the secret or a reference `${NAME}`."""
    more: Mapping[str, Any] = field(default_factory=dict)
    """Additional fields of the profile."""
    plain: bool = False
    """True to store the secrets in the profile itself instead of the vault."""

    @property
    def id(self) -> str:
        """Returns the id of its profile, `provider:name`."""
        return f"{self.provider}:{self.name}"


@dataclass(frozen=True, slots=True)
class Keeper:
    """Changes the credentials of one agent."""

    config: Config
    environ: Mapping[str, str]
    agent: AgentId

    @classmethod
    def of(cls, environ: Mapping[str, str], agent: str | None) -> "Keeper":
        """Returns the keeper of an agent; None for the default agent.

        Raises:
            ConfigError: the configuration is invalid.
            UnconfiguredAgentError: the agent is unknown.
        """
        loaded = load_good(environ)
        config = loaded.config
        agent_name = AgentId(agent) if agent else config.agents.default_id
        if agent_name not in config.agents.ids:
            raise UnconfiguredAgentError(agent_name, config.agents.ids)
        return cls(config, loaded.expanded.environ, agent_name)

    def provider(self, name: str) -> tuple[str, str]:
        """Returns a provider's id and the address to which its credentials are sent.

        Raises:
            CredentialError: the provider is unknown.
        """
        described = self.config.models.providers.get(name)
        hosted = known_provider(name)
        if described is not None:
            return (hosted.id if hosted else name), str(described.base_url)
        if hosted is None:
            listed = ", ".join(
                [*(hosted.id for hosted in HOSTED_PROVIDERS), *self.config.models.providers]
            )
            raise CredentialError(
                f"Unknown provider {name!r}. Known: {listed}.",
                "Describe others under models.providers first.",
            )
        return hosted.id, hosted.base_url

    def has_model(self, provider: str) -> bool:
        """Returns True when a credential of the provider can be tried with a known model."""
        described = self.config.models.providers.get(provider)
        return known_provider(provider) is not None or bool(described and described.models)

    def profiles(self) -> Profiles:
        """Returns the profiles of the agent's file.

        Raises:
            CredentialError: the file is invalid.
        """
        return read(profiles_file(self.config, self.agent), self.agent)

    def keep(self, entered: Entered, clock: Clock) -> Profile:
        """Stores a credential, replacing one with the same name; returns its profile.

        Raises:
            CredentialError: it is invalid, or cannot be stored; nothing changed.
        """
        profile = self.profile(entered, clock)
        secrets: dict[str, Any] = dict(entered.secrets)
        references = all(text.startswith("${") for text in secrets.values())
        if not (entered.plain or references):
            vault = vault_of(self.config, self.environ)
            refuse_in_workspace(self.config, vault.directory)
            named = {name: f"{self.agent}/{entered.id}#{name}" for name in secrets}
            vault.put(entered.provider, {named[name]: text for name, text in secrets.items()})
            secrets = {name: {"source": "vault", "id": entry} for name, entry in named.items()}
        content = {**profile.fields, **secrets}
        path = profiles_file(self.config, self.agent)
        change(path, lambda file: file["profiles"].update({entered.id: content}))
        return replace(profile, fields=content)

    def profile(self, entered: Entered, clock: Clock) -> Profile:
        """Returns the profile of a credential, with its secrets, without storing it.

        Raises:
            CredentialError: it is invalid, or the folder of profiles is in a workspace.
        """
        profiles_file(self.config, self.agent)
        if not is_id(entered.id):
            message = f"Invalid profile id {entered.id!r}."
            raise CredentialError(message, "Name it with letters, digits, '.', '-', '_', '@'.")
        _, base_url = self.provider(entered.provider)
        for name, text in entered.secrets.items():
            _check(name, text)
        content = {
            "type": entered.kind.value,
            "provider": entered.provider,
            "baseUrl": base_url,
            "saved": clock.now_ms(),
            **entered.more,
            **entered.secrets,
        }
        return Profile(entered.id, entered.provider, entered.kind, self.agent, content)

    def remove(self, name: str) -> Profile:
        """Deletes a credential, also from the vault; returns its profile.

        Raises:
            CredentialError: the profile is unknown, or the file cannot be written.
        """
        removed = self._named(name)

        def edit(content: dict[str, Any]) -> None:
            content["profiles"].pop(removed.id, None)
            for provider, ids in list(content.get("order", {}).items()):
                content["order"][provider] = [id_ for id_ in ids if id_ != removed.id]

        change(profiles_file(self.config, self.agent), edit)
        entries = {entry for field_name in removed.fields if (entry := removed.entry(field_name))}
        if entries:
            vault_of(self.config, self.environ).drop(removed.provider, entries)
        return removed

    def order(self, provider: str, ids: Sequence[str] | None) -> tuple[str, ...]:
        """Sets the order of a provider's profiles to `ids`, unless it is None; returns the order.

        With an empty order the profiles are used in turn.

        Raises:
            CredentialError: an id is not that of a profile of the provider.
        """
        provider, _ = self.provider(provider)
        if ids is not None:
            ordered = [self._named(name, provider).id for name in ids]

            def edit(content: dict[str, Any]) -> None:
                order = content.setdefault("order", {})
                order[provider] = ordered
                if not ordered:
                    del order[provider]

            change(profiles_file(self.config, self.agent), edit)
        return self.profiles().order.get(provider, ())

    def _named(self, name: str, provider: str = "") -> Profile:
        stored = self.profiles().profiles
        for candidate in (name, f"{provider}:{name}"):
            if candidate in stored and provider in {"", stored[candidate].provider}:
                return stored[candidate]
        names = ", ".join(stored) or "none"
        message = f"{self.agent} has no profile {name!r}. Profiles: {names}."
        raise CredentialError(message, "`skerry auth list` shows them.")


def _check(name: str, text: str) -> None:
    if not text or len(text) > LONGEST or not (text.isascii() and text.isprintable()):
        message = f"Invalid {name}: it is empty, too long, or has invalid characters."
        raise CredentialError(message, "Copy and enter it again.")


def describe(profile: Profile) -> str:
    """Returns the place of a profile's secret: `vault`, `environment` or `file`."""
    name = SECRETS[profile.kind][0]
    value = profile.fields.get(name)
    if profile.entry(name):
        return "vault"
    if isinstance(value, dict) or (isinstance(value, str) and value.startswith("${")):
        return "environment"
    return "file"


def problem(profile: Profile, keeper: Keeper, now: int) -> str:
    """Returns the reason why a profile cannot be used; empty when it can."""
    name = SECRETS[profile.kind][0]
    try:
        profile.secret(name, keeper.environ, vault_of(keeper.config, keeper.environ))
    except CredentialError as error:
        return str(error)
    expires = profile.expires
    if profile.kind is CredentialKind.TOKEN and expires is not None and expires <= now:
        return "its token has expired"
    return ""
