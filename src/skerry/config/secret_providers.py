"""Section `secrets`: files and programs that a secret may come from."""

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
    """A file or a program that secrets come from, or a list of variables."""

    source: Literal["env", "file", "exec"]
    """`env`, `file` or `exec`."""
    allowlist: tuple[_Name, ...] | None = Field(default=None, max_length=1000)
    """Variables that `env` may name; all when unset."""
    path: _Path | None = None
    """Path of the file of `file`. It must be yours, and closed to others."""
    mode: Literal["json", "singleValue"] = "json"
    """Form of the file of `file`: with `json` it holds an object, and ids such as `/openai/key` are
    paths in it; with `singleValue` it holds one secret whose id is `value`."""
    command: _Path | None = None
    """Absolute path of the program of `exec`. It is started without a shell."""
    args: tuple[str, ...] = Field(default=(), max_length=100)
    """Arguments of the program of `exec`."""
    timeout_ms: int = Field(default=5_000, ge=100, le=120_000)
    """Milliseconds after which the program of `exec` is killed."""
    max_output_bytes: int = Field(default=1_048_576, ge=1, le=16_777_216)
    """Bytes that the program of `exec` may print."""
    json_only: bool = True
    """Requires `exec` programs to print `{"values": {id: secret}}`; otherwise the whole output is
    the requested secret."""
    trusted_dirs: tuple[_Path, ...] = Field(default=(), max_length=100)
    """Directories in one of which the program of `exec` must be, after links are followed; when
    unset, any directory that nobody else can write to."""
    pass_env: tuple[_Name, ...] = Field(default=(), max_length=100)
    """Variables passed to the program of `exec`; no others are."""


class SecretsConfig(Section):
    """Sources of the secrets that the file refers to."""

    providers: dict[str, SecretProvider] = Field(default_factory=dict, max_length=50)
    """Each name to a provider. `default` is the environment."""
