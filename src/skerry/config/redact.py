"""Takes secrets out of a configuration before anyone is shown it."""

import re
from typing import Any, Final

from skerry.config.root import Config

REDACTED: Final = "__OPENCLAW_REDACTED__"
"""Stands for a secret in `config.get`, as clients know it."""

JSON = dict[str, Any] | list[Any] | str | int | float | bool | None

_SECRET_NAME: Final = re.compile(
    r"(token|password|passwd|passphrase|apikey|accesskey|privatekey|signingkey|secret"
    r"|credentials?|authorization|cookie|bearer)$"
)
_HOLDERS: Final = frozenset({"headers", "env", "vars"})
"""Sections of free names whose values are secrets more often than not."""
_IN_URL: Final = re.compile(r"(?<=://)[^/\s@]+(?=@)|(?<=[?&]key=)[^&\s#]+|(?<=token=)[^&\s#]+")


def is_secret(key: str) -> bool:
    """Return whether a value of this name is a secret: `token`, `apiKey`, `OPENAI_API_KEY`, ..."""
    return _SECRET_NAME.search(re.sub(r"[^a-z0-9]", "", key.lower())) is not None


def redact(value: JSON) -> JSON:
    """Return the tree with `REDACTED` for every secret, judged by the names of the keys.

    Numbers under such a name are replaced too; true, false and null stay. Text keeps its place but
    loses what an address carries (`https://user:password@...`).
    """
    match value:
        case dict():
            return {key: _hide(one) if _holds(key) else redact(one) for key, one in value.items()}
        case list():
            return [redact(one) for one in value]
        case str():
            return _IN_URL.sub(REDACTED, value)
        case _:
            return value


def redact_config(config: Config) -> JSON:
    """Return the checked configuration with its defaults, spelt as in the file, without secrets."""
    return redact(config.model_dump(mode="json", by_alias=True))


def _holds(key: str) -> bool:
    return key.lower() in _HOLDERS or is_secret(key)


def _hide(value: JSON) -> JSON:
    match value:
        case dict():
            return {key: _hide(one) for key, one in value.items()}
        case list():
            return [_hide(one) for one in value]
        case None | bool() | "":
            return value
        case _:
            return REDACTED
