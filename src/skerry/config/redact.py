"""Takes secrets out of a configuration before anyone is shown it."""

import re
from collections.abc import Mapping
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
_REFERENCE: Final = re.compile(r"\$\{[A-Z_][A-Z0-9_]*\}")
_NAME: Final = re.compile(r"[A-Z_][A-Z0-9_]{0,127}")
_LONGEST_ID: Final = 512
SHORTEST: Final = 6
"""Characters; what is shorter is not looked for in other values."""
_IN_URL: Final = re.compile(r"(?<=://)[^/\s@]+(?=@)|(?<=[?&]key=)[^&\s#]+|(?<=token=)[^&\s#]+")


def is_secret(key: str) -> bool:
    """Return whether a value of this name is a secret: `token`, `apiKey`, `OPENAI_API_KEY`, ..."""
    return _SECRET_NAME.search(re.sub(r"[^a-z0-9]", "", key.lower())) is not None


def is_reference(value: object) -> bool:
    """Return whether it is `{source: "env", id: "NAME"}`, which names a secret and holds none."""
    return (
        isinstance(value, dict)
        and value.keys() <= {"source", "provider", "id"}
        and value.get("source") == "env"
        and value.get("provider", "default") == "default"
        and isinstance(value.get("id"), str)
        and _NAME.fullmatch(value["id"]) is not None
    )


def is_fetched(value: object) -> bool:
    """Return whether it is `{source, provider, id}`, a secret that a provider of `secrets` has."""
    if not isinstance(value, dict) or value.keys() != {"source", "provider", "id"}:
        return False
    source, provider, name = value["source"], value["provider"], value["id"]
    texts = isinstance(provider, str) and isinstance(name, str) and 0 < len(name) <= _LONGEST_ID
    return texts and (source in {"file", "exec"} or (source == "env" and provider != "default"))


def redact(value: JSON) -> JSON:
    """Return the tree with `REDACTED` for every secret, judged by the names of the keys.

    Numbers under such a name are replaced too; true, false and null stay. Text keeps its place but
    loses what an address carries (`https://user:password@...`).
    """
    match value:
        case dict():
            return {
                key: _hide(one) if holds_secrets(key) else redact(one) for key, one in value.items()
            }
        case list():
            return [redact(one) for one in value]
        case str():
            return _IN_URL.sub(REDACTED, value)
        case _:
            return value


def redact_config(config: Config, used: Mapping[str, str] | None = None) -> JSON:
    """Return the checked configuration with its defaults, spelt as in the file, without secrets.

    Values of the variables in `used` show as `${NAME}` wherever they stand.
    """
    return redact(unresolved(config.model_dump(mode="json", by_alias=True), used or {}))


def unresolved(value: JSON, used: Mapping[str, str]) -> JSON:
    """Return the tree with `${NAME}` for every value of a variable in it."""
    match value:
        case dict():
            return {key: unresolved(one, used) for key, one in value.items()}
        case list():
            return [unresolved(one, used) for one in value]
        case str():
            for name, text in used.items():
                if len(text) >= SHORTEST or value == text:
                    value = value.replace(text, f"${{{name}}}")
            return value
        case _:
            return value


def holds_secrets(key: str) -> bool:
    """Return whether what stands under this name is a secret, all of it."""
    return key.lower() in _HOLDERS or is_secret(key)


def _hide(value: JSON) -> JSON:
    match value:
        case dict() if is_reference(value) or is_fetched(value):
            return value
        case str() if _REFERENCE.fullmatch(value):
            return value
        case dict():
            return {key: _hide(one) for key, one in value.items()}
        case list():
            return [_hide(one) for one in value]
        case None | bool() | "":
            return value
        case _:
            return REDACTED
