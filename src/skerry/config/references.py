"""Replaces `${NAME}` and `{source, provider, id}` by values of the environment or a provider."""

import re
from collections.abc import Callable, Iterator, Mapping
from typing import Any, Final

from skerry.config.paths import KeyPath, show_key_path
from skerry.config.redact import holds_secrets, is_fetched, is_reference, leaves
from skerry.model.errors import ConfigError, ConfigIssue

_REFERENCE: Final = re.compile(r"\$(\$?)\{([A-Z_][A-Z0-9_]*)\}")


class Substitution:
    """Replaces the references of a tree; collects the used variables and the issues.

    `fetch` returns the secrets of files and programs; None if only variables can be resolved.
    """

    def __init__(
        self,
        environ: Mapping[str, str],
        fetch: Callable[[Mapping[str, Any]], str] | None = None,
    ) -> None:
        self._environ = environ
        self._fetch = fetch
        self.used: dict[str, str] = {}
        """Variables that were replaced, with their values."""
        self.issues: list[ConfigIssue] = []

    def value(self, value: Any, key_path: KeyPath = (), *, secret: bool = False) -> Any:
        """Returns the tree with every reference replaced.

        A reference to an empty variable is kept and added to the issues. `$${NAME}` is the text
        `${NAME}`. The object form is accepted for secrets only.
        Source: openclaw-behaviour 1.3, 1.4.
        """
        match value:
            case str():
                return _REFERENCE.sub(lambda match: self._text(match, key_path), value)
            case list():
                return [
                    self.value(element, (*key_path, number), secret=secret)
                    for number, element in enumerate(value)
                ]
            case dict() if secret and "source" in value and "id" in value:
                return self._object(value, key_path)
            case dict():
                return {
                    key: self.value(member, (*key_path, key), secret=secret or holds_secrets(key))
                    for key, member in value.items()
                }
            case _:
                return value

    def _text(self, match: re.Match[str], key_path: KeyPath) -> str:
        text: str = match[0]
        return text[1:] if match[1] else self._named(match[2], key_path) or text

    def _object(self, value: dict[str, Any], key_path: KeyPath) -> Any:
        if is_reference(value):
            return self._named(value["id"], key_path) or value
        if is_fetched(value) and self._fetch is not None:
            try:
                return self._fetch(value)
            except ConfigError as error:
                self.issues.append(ConfigIssue(show_key_path(key_path), str(error), error.remedy))
                return value
        message = (
            "a reference to a secret is {source, provider, id} or {source: 'env', id: 'NAME'}."
        )
        self.issues.append(
            ConfigIssue(show_key_path(key_path), message, "Use ${NAME}, or that form.")
        )
        return value

    def _named(self, name: str, key_path: KeyPath) -> str:
        text = self._environ.get(name, "")
        if text:
            self.used[name] = text
        else:
            message = f"the variable {name} is missing or empty."
            remedy = f"Set {name} for the gateway, or in env.vars; or write the value itself."
            self.issues.append(ConfigIssue(show_key_path(key_path), message, remedy))
        return text


def refers(value: Any) -> bool:
    """Returns whether the tree has a reference."""
    return any(isinstance(leaf, dict) or any(_variables(leaf)) for leaf in leaves(value))


def names(value: Any) -> Iterator[str]:
    """Yields the name of every variable that the tree refers to."""
    for leaf in leaves(value):
        if is_reference(leaf):
            yield leaf["id"]
        yield from _variables(leaf)


def _variables(leaf: Any) -> Iterator[str]:
    text = leaf if isinstance(leaf, str) else ""
    return (match[2] for match in _REFERENCE.finditer(text) if not match[1])
