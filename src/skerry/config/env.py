"""Section `env`: variables for references and for the keys of providers."""

import re
from collections.abc import Mapping
from typing import Any, ClassVar, Final

from pydantic import Field, SecretStr, field_validator, model_validator

from skerry.config.base import OpenSection

_NAME: Final = re.compile(r"[A-Z_][A-Z0-9_]{0,127}")
_REFUSED: Final = frozenset(
    [
        "PATH",
        "HOME",
        "USER",
        "LOGNAME",
        "SHELL",
        "IFS",
        "ENV",
        "PS4",
        "PROMPT_COMMAND",
        "EDITOR",
        "VISUAL",
        "PAGER",
        "BROWSER",
        "TMPDIR",
        "TEMP",
        "TMP",
        "HOSTALIASES",
        "LOCALDOMAIN",
        "RES_OPTIONS",
        "NLSPATH",
        "LOCPATH",
        "PERL5OPT",
        "PERL5LIB",
        "RUBYOPT",
        "CLASSPATH",
        "_JAVA_OPTIONS",
    ]
)
_REFUSED_PREFIXES: Final = [
    "BASH_",
    "DOCKER_",
    "DYLD_",
    "GCONV_",
    "GIT_",
    "GLIBC_",
    "JAVA_",
    "LD_",
    "MALLOC_",
    "NODE_",
    "NPM_",
    "OPENCLAW_",
    "OPENSSL_",
    "PERL",
    "PIP_",
    "PYTHON",
    "RUBY",
    "SKERRY_",
    "SSH_",
    "SSL_",
    "SYSTEMD_",
    "UV_",
    "XDG_",
]
_REFUSED_ENDINGS: Final = ("_PROXY", "_PRELOAD", "_LIBRARY_PATH", "_CA_BUNDLE")


def may_be_set(name: str) -> bool:
    """Returns whether the file may set this variable; it must not decide which code is run."""
    return not (
        name in _REFUSED
        or name.startswith(tuple(_REFUSED_PREFIXES))
        or name.endswith(_REFUSED_ENDINGS)
    )


class EnvConfig(OpenSection):
    """Variables for references and for the keys of providers."""

    free_names: ClassVar[re.Pattern[str] | None] = _NAME

    vars: dict[str, SecretStr] = Field(default_factory=dict, max_length=1000)
    """Variables for Skerry only. A variable of the environment with the same name overrides it. A
    name may also be written in `env` directly. Names that decide which code runs, such as `PATH`,
    `LD_*`, `PYTHON*` and `SKERRY_*`, are refused."""

    @model_validator(mode="before")
    @classmethod
    def _short_form(cls, value: object) -> object:
        if not isinstance(value, dict):
            return value
        direct = {
            key: text
            for key, text in value.items()
            if _NAME.fullmatch(key) and isinstance(text, str)
        }
        listed = value.get("vars", {})
        if not direct or not isinstance(listed, dict):
            return value
        options = {key: member for key, member in value.items() if key not in direct}
        return {**options, "vars": {**direct, **listed}}

    @field_validator("vars")
    @classmethod
    def _allowed(cls, value: dict[str, SecretStr]) -> dict[str, SecretStr]:
        refused = [name for name in value if not (_NAME.fullmatch(name) and may_be_set(name))]
        if refused:
            message = f"{refused[0]!r} may not be set here; set it in the gateway's environment"
            raise ValueError(message)
        return value


def with_vars(tree: Mapping[str, Any], environ: Mapping[str, str]) -> dict[str, str]:
    """Returns the environment with the variables of `env`; wrong names and types are skipped.

    A variable of the environment that is not empty is kept.
    """
    section = tree.get("env")
    if not isinstance(section, dict):
        return dict(environ)
    listed = section.get("vars")
    added = {**section, **(listed if isinstance(listed, dict) else {})}
    set_in_file = {
        name: value
        for name, value in added.items()
        if isinstance(value, str) and _NAME.fullmatch(name) and may_be_set(name)
    }
    return {**set_in_file, **{name: value for name, value in environ.items() if value}}
