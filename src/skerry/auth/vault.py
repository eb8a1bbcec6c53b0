"""Secrets in encrypted files of `credentials/`, one for each provider.

A file is JSON: the parameters of its key, and each secret by its name, encrypted with
ChaCha20-Poly1305 (RFC 8439) under a new 96-bit nonce. Provider and name are authenticated with it,
so that a secret cannot be moved to another name. The key is 32 random bytes in `vault.key` (0600),
or derived by scrypt (RFC 7914) from a passphrase in the environment. No keyring is needed.
"""

import os
import re
from base64 import b64decode, b64encode
from collections.abc import Callable
from dataclasses import dataclass, field
from pathlib import Path
from typing import TYPE_CHECKING, Any, Final

import msgspec

from skerry.infra.atomic import exclusive, make_private, write_atomic
from skerry.infra.untrusted_json import UNREADABLE
from skerry.model.errors import CredentialError

if TYPE_CHECKING:
    from skerry.auth.sealing import Sealer

KEY_FILE: Final = "vault.key"
RESTORE: Final = "Restore it from a backup, or remove the file and enter the secrets again."
KEY_BYTES: Final = 32
_LIMIT: Final = 1024 * 1024
"""Limit of a file, in bytes; enough for a thousand tokens."""
_COST: Final = {"n": 2**15, "r": 8, "p": 1}
"""Parameters of scrypt: 32 MB and about 0.1 s."""
_PROVIDER: Final = re.compile(r"[A-Za-z0-9][A-Za-z0-9._-]{0,63}")


@dataclass(frozen=True, slots=True)
class SealedVault:
    """The encrypted files of a state directory. The key is read with the first secret."""

    directory: Path
    passphrase: str = field(default="", repr=False)
    """Passphrase; empty to store the key in a file."""

    def put(self, provider: str, secrets: dict[str, str]) -> None:
        """Stores secrets by their names, in one write; replaces those with the same name.

        Raises:
            CredentialError: the vault cannot be opened or written.
        """
        self._change(
            provider,
            lambda sealer, entries: (
                entries | {name: sealer.seal(name, text) for name, text in secrets.items()}
            ),
        )

    def drop(self, provider: str, names: set[str]) -> None:
        """Deletes secrets; unknown names are ignored."""
        if self._path(provider).exists():
            self._change(
                provider,
                lambda _, entries: {k: entry for k, entry in entries.items() if k not in names},
            )

    def get(self, provider: str, name: str) -> str:
        """Returns a secret.

        Raises:
            CredentialError: the secret is not stored, or the key is wrong.
        """
        content = self._read(provider)
        sealed = content["secrets"].get(name) if content else None
        if content is None or not isinstance(sealed, dict):
            message = f"The vault of {provider} has no {name}."
            raise CredentialError(message, f"Enter it again: skerry auth add {provider}.")
        return self._sealer(provider, content["kdf"]).open(name, sealed)

    def _change(
        self,
        provider: str,
        change: Callable[["Sealer", dict[str, Any]], dict[str, Any]],
    ) -> None:
        path = self._path(provider)
        try:
            make_private(self.directory)
            with exclusive(self.directory):
                content = self._read(provider) or {"version": 1, "kdf": self._new_kdf()}
                sealer = self._sealer(provider, content["kdf"])
                content["secrets"] = change(sealer, content.get("secrets", {}))
                write_atomic(path, msgspec.json.encode(content))
        except OSError as error:
            raise CredentialError(f"{path} cannot be written: {error.strerror}.") from error

    def _path(self, provider: str) -> Path:
        if not _PROVIDER.fullmatch(provider):
            raise CredentialError(f"{provider!r} is not the name of a provider.")
        return self.directory / f"{provider}.json"

    def _read(self, provider: str) -> dict[str, Any] | None:
        path = self._path(provider)
        try:
            data = read_private(path, _LIMIT)
            content = msgspec.json.decode(data) if data else None
        except UNREADABLE as error:
            raise CredentialError(f"{path} is damaged: {error}.", RESTORE) from error
        if content is None:
            return None
        if not (
            isinstance(content, dict)
            and isinstance(content.get("kdf"), dict)
            and isinstance(content.get("secrets"), dict)
        ):
            raise CredentialError(f"{path} is not a file of the vault.", RESTORE)
        return content

    def _new_kdf(self) -> dict[str, Any]:
        if not self.passphrase:
            return {"name": "file"}
        return {"name": "scrypt", "salt": b64encode(os.urandom(16)).decode(), **_COST}

    def _sealer(self, provider: str, kdf: dict[str, Any]) -> "Sealer":
        from skerry.auth.sealing import Sealer, derived  # noqa: PLC0415 - 30 ms, for who has a vault

        match kdf:
            case {"name": "file"}:
                return Sealer(provider, self._file_key())
            case {"name": "scrypt", "salt": str(salt), "n": int(n), "r": int(r), "p": int(p)}:
                return Sealer(provider, derived(self.passphrase, salt, (n, r, p)))
            case _:
                raise CredentialError(f"The vault of {provider} has a key of an unknown kind.")

    def _file_key(self) -> bytes:
        path = self.directory / KEY_FILE
        data = read_private(path, 1024)
        if data is None:
            if any(b'"file"' in file.read_bytes() for file in self.directory.glob("*.json")):
                message = f"{path} is missing, and only it opens the vault."
                raise CredentialError(message, RESTORE)
            key = os.urandom(KEY_BYTES)
            write_atomic(path, b64encode(key))
            return key
        key = b64decode(data)
        if len(key) != KEY_BYTES:
            raise CredentialError(f"{path} is no key.", RESTORE)
        return key


def read_private(path: Path, limit: int) -> bytes | None:
    """Returns the content of a file that only its owner can read; None for a missing file.

    Raises:
        CredentialError: the file is a link, too large, or readable by other users.
    """
    try:
        descriptor = os.open(path, os.O_RDONLY | os.O_NOFOLLOW | os.O_CLOEXEC)
    except FileNotFoundError:
        return None
    except OSError as error:
        raise CredentialError(f"{path} cannot be read: {error.strerror}.") from error
    with os.fdopen(descriptor, "rb") as file:
        if os.fstat(descriptor).st_mode & 0o077:
            raise CredentialError(f"{path} is readable by others.", f"chmod 600 {path}")
        data = file.read(limit + 1)
    if len(data) > limit:
        raise CredentialError(f"{path} is larger than {limit} bytes.")
    return data
