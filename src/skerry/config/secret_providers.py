"""Section `secrets`: files and programs that a secret may come from."""

from pathlib import Path
from typing import Annotated, Literal

from pydantic import AfterValidator, Field

from skerry.config.base import Section


def _absolute(path: Path) -> Path:
    found = path.expanduser()
    if not found.is_absolute():
        message = "must be an absolute path"
        raise ValueError(message)
    return found


_Path = Annotated[Path, AfterValidator(_absolute)]
_Name = Annotated[str, Field(pattern=r"^[A-Z_][A-Z0-9_]{0,127}$")]


class SecretProvider(Section):
    """A file or a program that secrets come from, or a list of variables."""

    source: Literal["env", "file", "exec"]
    """`env`, `file` or `exec`."""
    allowlist: tuple[_Name, ...] | None = Field(default=None, max_length=1000)
    """Of `env`: the variables that may be named; without it all."""
    path: _Path | None = None
    """Of `file`: where it is. It must be yours, and closed to others."""
    mode: Literal["json", "singleValue"] = "json"
    """Of `file`: `json` holds an object in which ids such as `/openai/key` are places;
    `singleValue` is the one secret whose id is `value`."""
    command: _Path | None = None
    """Of `exec`: the program, in full. No shell is asked."""
    args: tuple[str, ...] = Field(default=(), max_length=100)
    """Of `exec`: its arguments."""
    timeout_ms: int = Field(default=5_000, ge=100, le=120_000)
    """Of `exec`: milliseconds after which it is ended."""
    max_output_bytes: int = Field(default=1_048_576, ge=1, le=16_777_216)
    """Of `exec`: bytes that it may print."""
    json_only: bool = True
    """Of `exec`: whether it must answer `{"values": {id: secret}}`; else what it prints is the one
    secret that is asked for."""
    trusted_dirs: tuple[_Path, ...] = Field(default=(), max_length=100)
    """Of `exec`: directories in which the program, links followed, must be; without them any that
    nobody else can write to."""
    pass_env: tuple[_Name, ...] = Field(default=(), max_length=100)
    """Of `exec`: variables that it gets; no others."""


class SecretsConfig(Section):
    """Where secrets come from that stand in the file as references."""

    providers: dict[str, SecretProvider] = Field(default_factory=dict, max_length=50)
    """Each name to a provider. `default` is the environment."""
