"""Section `secrets`: files and programs that provide secrets."""

from pathlib import Path
from typing import Annotated, Literal

from pydantic import AfterValidator, Field

from skerry.config.base import Section


def _absolute(path: Path) -> Path:
    expanded = path.expanduser()
    if not expanded.is_absolute():
        message = "must be an absolute path"
        raise ValueError(message)
    return expanded


_Path = Annotated[Path, AfterValidator(_absolute)]
_Name = Annotated[str, Field(pattern=r"^[A-Z_][A-Z0-9_]{0,127}$")]


class SecretProvider(Section):
    """A file or a program that provides secrets, or a list of variables."""

    source: Literal["env", "file", "exec"]
    """Kind of the provider: `env`, `file` or `exec`."""
    allowlist: tuple[_Name, ...] | None = Field(default=None, max_length=1000)
    """For `env`: variables that may be used; all when unset."""
    path: _Path | None = None
    """For `file`: path of the file. You must own it, and no other user may read it."""
    mode: Literal["json", "singleValue"] = "json"
    """For `file`: with `json` the file is an object, and ids such as `/openai/key` are paths in it;
    with `singleValue` it is one secret with the id `value`."""
    command: _Path | None = None
    """For `exec`: absolute path of the program. It is started without a shell."""
    args: tuple[str, ...] = Field(default=(), max_length=100)
    """For `exec`: arguments of the program."""
    timeout_ms: int = Field(default=5_000, ge=100, le=120_000)
    """For `exec`: milliseconds after which the program is killed."""
    max_output_bytes: int = Field(default=1_048_576, ge=1, le=16_777_216)
    """For `exec`: maximum bytes that the program may print."""
    json_only: bool = True
    """For `exec`: requires the program to print `{"values": {id: secret}}`; otherwise the whole
    output is the requested secret."""
    trusted_dirs: tuple[_Path, ...] = Field(default=(), max_length=100)
    """For `exec`: directories that may contain the program, after links are resolved; when unset,
    any directory that no other user can write to."""
    pass_env: tuple[_Name, ...] = Field(default=(), max_length=100)
    """For `exec`: the only variables that are passed to the program."""


class SecretsConfig(Section):
    """Providers of the secrets that the file refers to."""

    providers: dict[str, SecretProvider] = Field(default_factory=dict, max_length=50)
    """Providers by name. `default` is the environment."""
