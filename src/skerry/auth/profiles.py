"""`auth-profiles.json`: the credentials of one agent, by name, in the seeds' format.

`{version: 1, profiles: {"provider:name": ...}, order?: {provider: [ids]}}`, where a profile is
`{type: "api_key", provider, key}`, `{type: "token", provider, token, expires?}` or
`{type: "oauth", provider, access, refresh, expires}`. A secret is a text, `${NAME}`,
`{source: "env", id: NAME}`, or `{source: "vault", id: NAME}`. What else stands in the file is kept.
Source: openclaw-behaviour 6.4.
"""

import hashlib
import re
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, field
from enum import StrEnum
from pathlib import Path
from typing import Any, Final

import msgspec

from skerry.auth.vault import SealedVault, read_private
from skerry.config.redact import is_reference
from skerry.infra.atomic import exclusive, make_private, write_atomic
from skerry.infra.untrusted_json import UNREADABLE
from skerry.model.errors import CredentialError
from skerry.model.ids import AgentId

FILE: Final = "auth-profiles.json"
MAX_PROFILES: Final = 200
_LIMIT: Final = 1024 * 1024
_ENV: Final = re.compile(r"\$\{([A-Za-z_][A-Za-z0-9_]*)\}")
_ID: Final = re.compile(r"[A-Za-z0-9][A-Za-z0-9._-]{0,63}:[\x21-\x7e]{1,128}")


class CredentialKind(StrEnum):
    """Kind of a credential."""

    API_KEY = "api_key"
    TOKEN = "token"  # noqa: S105 - the seeds' word
    OAUTH = "oauth"


SECRETS: Final[Mapping[CredentialKind, tuple[str, ...]]] = {
    CredentialKind.API_KEY: ("key",),
    CredentialKind.TOKEN: ("token",),
    CredentialKind.OAUTH: ("access", "refresh"),
}
"""The fields of each kind that are secret; the first is what a provider is shown."""


@dataclass(frozen=True, slots=True)
class Profile:
    """One credential of one provider, as the file has it."""

    id: str
    """`provider:name`."""
    provider: str
    kind: CredentialKind
    owner: AgentId
    """Agent whose file has the profile."""
    fields: Mapping[str, Any] = field(repr=False)

    @property
    def key(self) -> str:
        """Returns the name of the profile among those of all agents."""
        return f"{self.owner}/{self.id}"

    @property
    def expires(self) -> int | None:
        """Returns when its token ends, in milliseconds since 1970; None is never, or unknown."""
        end = self.fields.get("expires")
        return int(end) if isinstance(end, int | float) and end > 0 else None

    @property
    def base_url(self) -> str | None:
        """Returns the address for which it was entered; it is sent to no other."""
        address = self.fields.get("baseUrl")
        return address if isinstance(address, str) else None

    @property
    def stamp(self) -> str:
        """Returns a fingerprint that changes when the credential is replaced, not when renewed."""
        saved = self.fields.get("saved") if self.kind is CredentialKind.OAUTH else None
        message = (
            saved if saved is not None else [self.fields.get(name) for name in SECRETS[self.kind]]
        )
        return hashlib.sha256(msgspec.json.encode(message)).hexdigest()[:16]

    def secret(self, name: str, environ: Mapping[str, str], vault: SealedVault) -> str:
        """Returns one of its secrets.

        Raises:
            CredentialError: it is missing, or refers to what is.
        """
        value = self.fields.get(name)
        match value:
            case str():
                text = _ENV.sub(lambda match: self._named(match[1], environ), value)
            case {"source": "vault", "id": str(entry)}:
                text = vault.get(self.provider, entry)
            case dict() if is_reference(value):
                text = self._named(value["id"], environ)
            case _:
                text = ""
        text = text.strip()
        if not text or not text.isascii() or not text.isprintable():
            lack = "no usable" if text else "no"
            message = f"{self.id} has {lack} {name}."
            raise CredentialError(message, f"Enter it again: skerry auth add {self.provider}.")
        return text

    def _named(self, name: str, environ: Mapping[str, str]) -> str:
        value = environ.get(name, "")
        if not value:
            message = f"{self.id} needs {name}, which is not in the environment."
            raise CredentialError(message, f"Set {name} for the gateway.")
        return value

    def entry(self, name: str) -> str | None:
        """Returns the name under which the vault keeps one of its secrets, if it does."""
        match self.fields.get(name):
            case {"source": "vault", "id": str(entry)}:
                return entry
        return None


@dataclass(frozen=True, slots=True)
class Profiles:
    """Content of one agent's file."""

    profiles: Mapping[str, Profile] = field(default_factory=dict)
    order: Mapping[str, tuple[str, ...]] = field(default_factory=dict)
    """Provider to the ids in the order of use, where the file gives one."""
    problems: tuple[str, ...] = ()
    """Entries of the file that cannot be used, for people."""


def parse(content: Mapping[str, Any], owner: AgentId) -> Profiles:
    """Parses the content of a file; entries that cannot be used are named and left out."""
    profiles: dict[str, Profile] = {}
    problems: list[str] = []
    listed = content.get("profiles")
    for name, entry in listed.items() if isinstance(listed, dict) else ():
        problem = _problem(name, entry)
        if problem or len(profiles) == MAX_PROFILES:
            problems.append(problem or f"{name!r} is one too many; {MAX_PROFILES} count")
        else:
            profiles[name] = Profile(
                name, entry["provider"], CredentialKind(entry["type"]), owner, entry
            )
    ordered = content.get("order")
    order = {
        provider: tuple(id_ for id_ in ids if isinstance(id_, str))
        for provider, ids in (ordered.items() if isinstance(ordered, dict) else ())
        if isinstance(ids, list)
    }
    return Profiles(profiles, order, tuple(problems))


def _problem(name: str, entry: Any) -> str:
    if not is_id(name):
        return f"{name!r} is not a profile id of the form provider:name"
    match entry:
        case {"type": "api_key" | "token" | "oauth", "provider": str(provider)} if provider:
            return ""
        case {"type": kind} if kind not in set(CredentialKind):
            return f"{name}: {kind!r} is not a type; types: {', '.join(CredentialKind)}"
        case _:
            return f"{name}: type and provider are missing"


def is_id(name: str) -> bool:
    """Returns whether it can name a profile."""
    return _ID.fullmatch(name) is not None


def read(path: Path, owner: AgentId) -> Profiles:
    """Returns the profiles of a file; none where there is none.

    Raises:
        CredentialError: it is damaged, or open to others.
    """
    return parse(_content(path), owner)


def _content(path: Path) -> dict[str, Any]:
    data = read_private(path, _LIMIT)
    try:
        content = msgspec.json.decode(data) if data else {}
    except UNREADABLE as error:
        raise CredentialError(f"{path} is damaged: {error}.", "Repair it, or remove it.") from error
    if not isinstance(content, dict):
        raise CredentialError(f"{path} holds no profiles.", "Repair it, or remove it.")
    return content


def change(path: Path, edit: Callable[[dict[str, Any]], None]) -> None:
    """Changes the file under a lock that also holds between processes; whole or not at all.

    Raises:
        CredentialError: it is damaged, or cannot be written; it stands as it was.
    """
    try:
        make_private(path.parent)
        with exclusive(path.parent):
            content = _content(path)
            content.setdefault("version", 1)
            content.setdefault("profiles", {})
            edit(content)
            write_atomic(path, msgspec.json.format(msgspec.json.encode(content), indent=2))
    except OSError as error:
        raise CredentialError(f"{path} cannot be written: {error.strerror}.") from error


_KINDS: Final = (CredentialKind.OAUTH, CredentialKind.TOKEN, CredentialKind.API_KEY)


def split_reference(reference: str) -> tuple[str, str]:
    """Returns `provider/model` and the profile behind `@`, or empty where none is pinned.

    A model's own name may hold an `@`: what follows is a profile only in the form `provider:name`,
    or a short name without `/` behind the last `@`.
    """
    model, at, profile = reference.rpartition("@")
    if not at or not model or not profile or "/" in profile:
        return reference, ""
    return model, profile


def pinned(profiles: Sequence[Profile], name: str) -> Profile | None:
    """Returns the profile that a person named: by its id, or by what follows the provider."""
    ids = {profile.id: profile for profile in reversed(profiles)}
    return ids.get(name) or next(
        (profile for profile in profiles if profile.id.partition(":")[2] == name), None
    )


def ordered(
    profiles: Sequence[Profile],
    explicit: Sequence[str],
    last_used: Mapping[str, int],
    until: Callable[[Profile], int],
    now: int,
    sticky: str = "",
) -> list[Profile]:
    """Returns the profiles in the order in which they are asked.

    Args:
        profiles: Those of one provider, the agent's own first.
        explicit: Ids in the order that a person gave; others are not used. Empty is round-robin:
            OAuth, tokens, keys, and among equals the one that was used longest ago.
        last_used: For each `Profile.key` a number that grows with each use.
        until: When the profile's rest for this model ends; those that rest come last, first the one
            that rests shortest.
        now: The time to which `until` compares.
        sticky: The `key` of the profile that this session keeps to; first unless it rests.

    """
    if explicit:
        by_id = {profile.id: profile for profile in reversed(profiles)}
        chosen = [by_id[name] for name in dict.fromkeys(explicit) if name in by_id]
    else:
        chosen = sorted(
            profiles,
            key=lambda profile: (_KINDS.index(profile.kind), last_used.get(profile.key, 0)),
        )
    chosen.sort(key=lambda profile: profile.key != sticky)
    return sorted(chosen, key=lambda profile: max(until(profile) - now, 0))
