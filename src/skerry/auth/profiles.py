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
"""Secret fields of each kind; the first one is sent to the provider."""


@dataclass(frozen=True, slots=True)
class Profile:
    """One credential of one provider, with the fields of the file."""

    id: str
    """`provider:name`."""
    provider: str
    kind: CredentialKind
    owner: AgentId
    """Agent that owns the file of the profile."""
    fields: Mapping[str, Any] = field(repr=False)

    @property
    def key(self) -> str:
        """Returns the name of the profile, unique over all agents."""
        return f"{self.owner}/{self.id}"

    @property
    def expires(self) -> int | None:
        """Returns the expiry of its token, in milliseconds since 1970; None for none or unknown."""
        end = self.fields.get("expires")
        return int(end) if isinstance(end, int | float) and end > 0 else None

    @property
    def base_url(self) -> str | None:
        """Returns the address for which it was entered; it is sent to no other address."""
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
            CredentialError: the secret, or the variable or entry that it refers to, is missing.
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
        """Returns the name of one of its secrets in the vault; None when it is not there."""
        match self.fields.get(name):
            case {"source": "vault", "id": str(entry)}:
                return entry
        return None


@dataclass(frozen=True, slots=True)
class Profiles:
    """Content of one agent's file."""

    profiles: Mapping[str, Profile] = field(default_factory=dict)
    order: Mapping[str, tuple[str, ...]] = field(default_factory=dict)
    """Configured order of ids, by provider."""
    problems: tuple[str, ...] = ()
    """Texts about invalid entries of the file."""


def parse(content: Mapping[str, Any], owner: AgentId) -> Profiles:
    """Parses the content of a file; invalid entries are reported and skipped."""
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
    """Returns True for a valid profile id."""
    return _ID.fullmatch(name) is not None


def read(path: Path, owner: AgentId) -> Profiles:
    """Returns the profiles of a file; empty for a missing file.

    Raises:
        CredentialError: the file is invalid, or other users can read it.
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
    """Changes the file atomically, under a lock that also excludes other processes.

    Raises:
        CredentialError: the file is invalid or cannot be written; it is unchanged.
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
    """Returns `provider/model`, and the profile after `@`; empty for none.

    The name of a model may contain an `@`: a profile follows only in the form `provider:name`, or
    as a short name without `/` after the last `@`.
    """
    model, at, profile = reference.rpartition("@")
    if not at or not model or not profile or "/" in profile:
        return reference, ""
    return model, profile


def pinned(profiles: Sequence[Profile], name: str) -> Profile | None:
    """Returns the profile with this id, or with this name after the provider."""
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
    """Returns the profiles in the order of their use.

    Args:
        profiles: Profiles of one provider, the agent's own first.
        explicit: Ids in a configured order; others are not used. Empty is round-robin: OAuth,
            tokens, keys, and among equals the least recently used one first.
        last_used: A number by `Profile.key` that increases with each use.
        until: Returns the end of the profile's cooldown for this model. Profiles in a cooldown are
            last, the one that ends first before the others.
        now: Present time, in the unit of `until`.
        sticky: The `key` of the profile of this session; first unless it is in a cooldown.

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
