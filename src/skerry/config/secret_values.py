"""Fetches the secrets that a configuration refers to, from files and programs.

A program reads `{"protocolVersion": 1, "provider": NAME, "ids": [...]}` from stdin and prints
`{"protocolVersion": 1, "values": {id: secret}}`. Source: openclaw-behaviour 1.4.
"""

import json
import os
import stat
from collections.abc import Mapping
from pathlib import Path
from typing import Any, Final

from pydantic import ValidationError

from skerry.config.redact import is_fetched, leaves
from skerry.config.secret_providers import SecretProvider, SecretsConfig
from skerry.infra.untrusted_json import UNREADABLE
from skerry.model.errors import ConfigError

UNFETCHED: Final = "(not fetched)"
"""Placeholder of a secret if the file is only checked."""
_FILE_LIMIT: Final = 1_048_576
_SECRET_LIMIT: Final = 65_536


def unfetched(_reference: Mapping[str, Any]) -> str:
    """Returns the placeholder of a secret, without reading a file or running a program."""
    return UNFETCHED


class Fetcher:
    """Fetches secrets for one load of the configuration; each file and program is used once."""

    def __init__(self, merged: Mapping[str, Any], environ: Mapping[str, str]) -> None:
        self._merged = merged
        self._environ = environ
        self._providers: SecretsConfig | None = None
        self._cache: dict[str, Mapping[str, Any] | str] = {}

    def __call__(self, reference: Mapping[str, Any]) -> str:
        """Returns the secret.

        Raises:
            ConfigError: the secret cannot be fetched; the message has no part of it.
        """
        name, secret_id = reference["provider"], reference["id"]
        provider = self._provider(name, reference["source"])
        if provider.source == "env":
            return self._variable(provider, secret_id)
        if name not in self._cache:
            self._cache[name] = self._fetched(name, provider)
        fetched = self._cache[name]
        value = fetched if isinstance(fetched, str) else _at(fetched, provider, secret_id)
        if not isinstance(value, str) or not value or len(value) > _SECRET_LIMIT:
            raise _failed(f"the secret provider {name!r} has no secret {secret_id!r}.")
        return value

    def _provider(self, name: str, source: str) -> SecretProvider:
        if self._providers is None:
            try:
                self._providers = SecretsConfig.model_validate(self._merged.get("secrets", {}))
            except ValidationError:
                raise _failed("the section secrets is not valid.") from None
        provider = self._providers.providers.get(name)
        if provider is None or provider.source != source:
            raise _failed(f"secrets.providers has no {name!r} with source {source!r}.")
        return provider

    def _variable(self, provider: SecretProvider, name: str) -> str:
        if provider.allowlist is not None and name not in provider.allowlist:
            raise _failed(f"the variable {name} is not in the allowlist of its provider.")
        if not (text := self._environ.get(name, "")):
            raise _failed(f"the variable {name} is missing or empty.")
        return text

    def _fetched(self, name: str, provider: SecretProvider) -> Mapping[str, Any] | str:
        if provider.source == "file":
            return _from_file(name, provider)
        ids = sorted(
            {
                reference["id"]
                for reference in leaves(self._merged)
                if is_fetched(reference) and reference["provider"] == name
            }
        )
        if not provider.json_only and len(ids) != 1:
            raise _failed(f"the secret provider {name!r} prints one secret, not {len(ids)}.")
        request = {"protocolVersion": 1, "provider": name, "ids": ids}
        printed = _run(name, provider, json.dumps(request).encode(), self._environ)
        if not provider.json_only:
            return printed.decode(errors="replace").removesuffix("\n").removesuffix("\r")
        values = _object(name, printed).get("values")
        if not isinstance(values, dict):
            raise _failed(f"the secret provider {name!r} printed no object 'values'.")
        return values


def _from_file(name: str, provider: SecretProvider) -> Mapping[str, Any] | str:
    if provider.path is None:
        raise _failed(f"the secret provider {name!r} has no path.")
    try:
        descriptor = os.open(provider.path, os.O_RDONLY | os.O_CLOEXEC | os.O_NONBLOCK)
        with os.fdopen(descriptor, "rb") as file:
            status = os.fstat(descriptor)
            if not stat.S_ISREG(status.st_mode):
                raise _failed(f"{provider.path} is not a plain file.")
            if status.st_mode & 0o077 or status.st_uid != os.geteuid():
                raise _failed(f"{provider.path} is readable by others: chmod 600 {provider.path}")
            data = file.read(_FILE_LIMIT + 1)
    except OSError as error:
        raise _failed(f"{provider.path} cannot be read: {error.strerror}.") from None
    if len(data) > _FILE_LIMIT:
        raise _failed(f"{provider.path} is larger than {_FILE_LIMIT} bytes.")
    if provider.mode == "json":
        return _object(name, data)
    return data.decode(errors="replace").removesuffix("\n").removesuffix("\r")


def _at(values: Mapping[str, Any], provider: SecretProvider, secret_id: str) -> Any:
    """Returns a program's value for the id, or the value at a JSON pointer (RFC 6901)."""
    if provider.source == "exec":
        return values.get(secret_id)
    value: Any = values
    for part in secret_id.removeprefix("/").split("/"):
        key = part.replace("~1", "/").replace("~0", "~")
        value = value.get(key) if isinstance(value, Mapping) else None
    return value


def _object(name: str, data: bytes) -> dict[str, Any]:
    try:
        parsed = json.loads(data)
    except UNREADABLE:
        parsed = None
    if not isinstance(parsed, dict):
        raise _failed(f"the secret provider {name!r} printed no JSON object.")
    return parsed


def _run(name: str, provider: SecretProvider, request: bytes, environ: Mapping[str, str]) -> bytes:
    """Runs the program and returns its output."""
    from skerry.infra import process  # noqa: PLC0415 - few configurations name a program

    passed = {variable: environ[variable] for variable in provider.pass_env if variable in environ}
    command = [str(_trusted(name, provider)), *provider.args]
    try:
        completed = process.run_blocking(
            process.Program(command, passed, folder=Path("/")),
            seconds=provider.timeout_ms / 1000,
            stdin=request,
            max_bytes=provider.max_output_bytes,
        )
    except process.NotStartedError as error:
        raise _failed(f"{provider.command} cannot be run: {error.reason}.") from None
    except process.LateError:
        raise _failed(f"the secret provider {name!r} did not end in time.") from None
    except process.FloodError:
        raise _failed(
            f"the secret provider {name!r} printed more than {provider.max_output_bytes} bytes."
        ) from None
    if completed.code != 0:
        raise _failed(f"the secret provider {name!r} ended with code {completed.code}.")
    return completed.out


def _trusted(name: str, provider: SecretProvider) -> Path:
    """Returns the resolved path of the program; refuses it if other users could replace it."""
    if provider.command is None:
        raise _failed(f"the secret provider {name!r} has no command.")
    try:
        command = provider.command.resolve(strict=True)
        status = command.stat()
        above = [parent.stat() for parent in command.parents]
    except OSError as error:
        raise _failed(f"{provider.command} cannot be run: {error.strerror}.") from None
    owners = {0, os.geteuid()}
    if not stat.S_ISREG(status.st_mode) or status.st_uid not in owners or status.st_mode & 0o022:
        raise _failed(f"{command} is not a program that only you or root can change.")
    sticky = stat.S_ISVTX
    if any(parent.st_mode & 0o022 and not parent.st_mode & sticky for parent in above):
        raise _failed(f"others can write to a directory above {command}.")
    if provider.trusted_dirs and not any(
        command.is_relative_to(trusted_dir.resolve()) for trusted_dir in provider.trusted_dirs
    ):
        raise _failed(f"{command} is in none of trustedDirs.")
    return command


def _failed(message: str) -> ConfigError:
    error = ConfigError(message)
    error.remedy = "See secrets.providers; `skerry config validate` tries it again."
    return error
