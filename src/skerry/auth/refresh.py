"""Renews OAuth tokens (RFC 6749 section 6): early, and by one process at a time.

A provider may revoke the old refresh token when it issues a new one, so the new one is on disk
before the access token is used, and a cancellation does not interrupt the exchange.
"""

import fcntl
import os
from collections.abc import AsyncGenerator, Mapping
from contextlib import asynccontextmanager
from dataclasses import dataclass, field
from functools import partial
from pathlib import Path
from typing import Any, Final
from urllib.parse import urlencode

import anyio
import anyio.to_thread
import httpx2
import msgspec

from skerry.auth.profiles import FILE, CredentialKind, Profile, change, read
from skerry.auth.vault import SealedVault
from skerry.infra.atomic import make_private
from skerry.infra.clock import Clock
from skerry.infra.http import BODY_LIMIT
from skerry.infra.untrusted_json import UNREADABLE
from skerry.model.errors import CredentialError, ModelConnectionError, ModelError, ModelSignInError

EARLY: Final = 300_000
"""Milliseconds before the expiry at which a token is renewed."""
EXCHANGE_SECONDS: Final = 30.0
LOCK_SECONDS: Final = 45.0
"""Limit of the wait for another process, longer than one exchange takes."""
_LOCK: Final = ".auth-refresh.lock"
_POLL: Final = 0.05
_LIMIT: Final = 256 * 1024
_MAX_LIFETIME_SECONDS: Final = 10 * 365 * 86_400  # seconds; an answer may have any number
_REFUSED: Final = frozenset({400, 401, 403})


@dataclass(frozen=True, slots=True)
class Tokens:
    """Response of a token endpoint."""

    access: str = field(repr=False)
    refresh: str = field(repr=False)
    """Empty when the server returned no new one."""
    expires: int | None
    """Expiry, in milliseconds since 1970."""
    scope: str = ""


class TokenRefusedError(Exception):
    """The token endpoint refused: the code or the refresh token is invalid."""


async def exchange(http: httpx2.AsyncClient, url: str, form: Mapping[str, str], now: int) -> Tokens:
    """Posts `form` to the token endpoint. Its response is never shown, since it may be secret.

    Raises:
        TokenRefusedError: the endpoint refused.
        ModelConnectionError: the endpoint cannot be reached, failed, or returned an invalid
            response.
    """
    body, host = await _post(http, url, "x-www-form-urlencoded", urlencode(form).encode())
    return _tokens(body, host, now)


async def exchange_key(http: httpx2.AsyncClient, url: str, code: str, verifier: str) -> Tokens:
    """Returns the API key that a service issues for a code, as a token that does not expire.

    Raises:
        TokenRefusedError: the service refused.
        ModelConnectionError: as `exchange`.
    """
    form = {"code": code, "code_verifier": verifier, "code_challenge_method": "S256"}
    body, host = await _post(http, url, "json", msgspec.json.encode(form))
    answer = _json(body)
    if not (isinstance(answer, dict) and isinstance(answer.get("key"), str)):
        raise ModelConnectionError(f"{host} returned no key.")
    return Tokens(answer["key"], "", None)


async def _post(http: httpx2.AsyncClient, url: str, kind: str, content: bytes) -> tuple[bytes, str]:
    """Returns the body of the response, and the host that sent it."""
    request = httpx2.Request(
        "POST",
        url,
        content=content,
        headers={"accept": "application/json", "content-type": f"application/{kind}"},
        extensions={BODY_LIMIT: _LIMIT},
    )
    host = request.url.host
    try:
        with anyio.fail_after(EXCHANGE_SECONDS):
            response = await http.send(request)
    except TimeoutError as error:
        raise ModelConnectionError(f"{host} returned no token in time.") from error
    except httpx2.HTTPError as error:
        raise ModelConnectionError(f"{host} returned no token: {type(error).__name__}.") from error
    if response.status_code in _REFUSED:
        raise TokenRefusedError(f"{host} refused it ({response.status_code})")
    if response.status_code != httpx2.codes.OK:
        raise ModelConnectionError(f"{host} returned no token ({response.status_code}).")
    return response.content, host


def _json(body: bytes) -> Any:
    try:
        return msgspec.json.decode(body)
    except UNREADABLE:
        return None


def _tokens(body: bytes, host: str, now: int) -> Tokens:
    answer = _json(body)
    if isinstance(answer, dict) and "error" in answer:  # some answer 200 and say no in the body
        raise TokenRefusedError(f"{host} refused it")
    if not (isinstance(answer, dict) and isinstance(answer.get("access_token"), str)):
        raise ModelConnectionError(f"{host} returned no token.")
    refresh, seconds = answer.get("refresh_token"), answer.get("expires_in")
    return Tokens(
        answer["access_token"],
        refresh if isinstance(refresh, str) else "",
        now + int(min(seconds, _MAX_LIFETIME_SECONDS) * 1000)
        if isinstance(seconds, int | float)
        else None,
        str(answer.get("scope") or ""),
    )


@dataclass(frozen=True, slots=True)
class Renewal:
    """Renews the tokens of OAuth profiles."""

    http: httpx2.AsyncClient
    vault: SealedVault
    environ: Mapping[str, str]
    clock: Clock
    _locks: dict[str, anyio.Lock] = field(default_factory=dict, init=False)

    async def access(self, profile: Profile, directory: Path) -> str:
        """Returns an access token that is valid for a while, renewed if necessary.

        Args:
            profile: Profile of kind OAuth.
            directory: Folder of its file.

        Raises:
            ModelSignInError: the sign-in has expired; a person has to sign in again.
            ModelError: no token could be obtained now.
        """
        if not self._is_due(profile):
            return await self._secret(profile, "access")
        async with self._locks.setdefault(profile.key, anyio.Lock()):
            with anyio.CancelScope(shield=True):
                async with _locked(directory):
                    return await self._renewed(profile, directory)
        raise AssertionError("nothing cancels a shielded scope")

    def _is_due(self, profile: Profile) -> bool:
        return profile.expires is not None and profile.expires - self.clock.now_ms() <= EARLY

    async def _renewed(self, profile: Profile, directory: Path) -> str:
        profiles = await anyio.to_thread.run_sync(read, directory / FILE, profile.owner)
        profile = profiles.profiles.get(profile.id, profile)
        if not self._is_due(profile):  # another process was faster
            return await self._secret(profile, "access")
        try:
            tokens = await self._ask(profile)
        except TokenRefusedError as error:
            raise _ended(profile, str(error)) from error
        except ModelConnectionError:
            if profile.expires is not None and profile.expires > self.clock.now_ms():
                return await self._secret(profile, "access")  # it still counts
            raise
        keep = partial(store_tokens, directory / FILE, profile, tokens, self.vault)
        await anyio.to_thread.run_sync(keep)
        return tokens.access

    async def _ask(self, profile: Profile) -> Tokens:
        url, client = profile.fields.get("tokenUrl"), profile.fields.get("clientId")
        if not (isinstance(url, str) and isinstance(client, str)):
            raise _ended(profile, "the profile does not say where to renew it")
        form = {
            "grant_type": "refresh_token",
            "refresh_token": await self._secret(profile, "refresh"),
            "client_id": client,
        }
        if profile.fields.get("clientSecret"):
            form["client_secret"] = await self._secret(profile, "clientSecret")
        return await exchange(self.http, url, form, self.clock.now_ms())

    async def _secret(self, profile: Profile, name: str) -> str:
        try:
            get = partial(profile.secret, name, self.environ, self.vault)
            return await anyio.to_thread.run_sync(get) if profile.entry(name) else get()
        except CredentialError as error:
            failed = ModelSignInError(str(error))
            failed.remedy = error.remedy
            raise failed from error


def _ended(profile: Profile, reason: str) -> ModelError:
    error = ModelSignInError(f"The sign-in of {profile.id} has expired: {reason}.")
    error.remedy = f"skerry auth login {profile.provider} --agent {profile.owner}"
    return error


def store_tokens(path: Path, profile: Profile, tokens: Tokens, vault: SealedVault) -> None:
    """Replaces the stored tokens by new ones, in the vault or the file."""
    new = {"access": tokens.access}
    if tokens.refresh:
        new["refresh"] = tokens.refresh
    entries = {name: entry for name in new if (entry := profile.entry(name)) is not None}
    if entries:
        vault.put(profile.provider, {entry: new[name] for name, entry in entries.items()})

    def edit(content: dict[str, Any]) -> None:
        entry = content["profiles"].setdefault(profile.id, dict(profile.fields))
        entry |= {name: text for name, text in new.items() if name not in entries}
        entry["expires"] = tokens.expires or 0

    assert profile.kind is CredentialKind.OAUTH  # noqa: S101 - no other kind has two tokens
    change(path, edit)


@asynccontextmanager
async def _locked(directory: Path) -> AsyncGenerator[None]:
    """Holds the lock of a directory for the renewal. The lock ends with the process."""
    make_private(directory)
    flags = os.O_RDWR | os.O_CREAT | os.O_CLOEXEC | os.O_NOFOLLOW
    descriptor = os.open(directory / _LOCK, flags, 0o600)
    try:
        with anyio.move_on_after(LOCK_SECONDS) as waiting:
            while not _try_lock(descriptor):  # noqa: ASYNC110 - of another process no event comes
                await anyio.sleep(_POLL)
        if waiting.cancelled_caught:
            raise ModelConnectionError(
                "Another process renews the same sign-in and has not finished."
            )
        yield
    finally:
        os.close(descriptor)


def _try_lock(descriptor: int) -> bool:
    try:
        fcntl.flock(descriptor, fcntl.LOCK_EX | fcntl.LOCK_NB)
    except BlockingIOError:
        return False
    return True
