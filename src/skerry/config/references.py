"""Replaces `${NAME}` and `{source, provider, id}` by what the environment or a provider says."""

import re
from collections.abc import Callable, Iterator, Mapping
from typing import Any, Final

from skerry.config.paths import Place, show_place
from skerry.config.redact import holds_secrets, is_fetched, is_reference
from skerry.model.errors import ConfigError, ConfigIssue

_REFERENCE: Final = re.compile(r"\$(\$?)\{([A-Z_][A-Z0-9_]*)\}")


class Substitution:
    """One pass over a tree: what it used, and what is wrong.

    `fetch` gives what is in no variable; None where only variables are known.
    """

    def __init__(
        self,
        environ: Mapping[str, str],
        fetch: Callable[[Mapping[str, Any]], str] | None = None,
    ) -> None:
        self._environ = environ
        self._fetch = fetch
        self.used: dict[str, str] = {}
        """Each name that was replaced, with its value."""
        self.issues: list[ConfigIssue] = []

    def value(self, value: Any, place: Place = (), *, secret: bool = False) -> Any:
        """Returns the tree with every reference replaced; one that is empty stays and is noted.

        `$${NAME}` means the text `${NAME}`. The object form counts for secrets only.
        Source: openclaw-behaviour 1.3, 1.4.
        """
        match value:
            case str():
                return _REFERENCE.sub(lambda found: self._text(found, place), value)
            case list():
                return [
                    self.value(one, (*place, number), secret=secret)
                    for number, one in enumerate(value)
                ]
            case dict() if secret and "source" in value and "id" in value:
                return self._object(value, place)
            case dict():
                return {
                    key: self.value(one, (*place, key), secret=secret or holds_secrets(key))
                    for key, one in value.items()
                }
            case _:
                return value

    def _text(self, found: re.Match[str], place: Place) -> str:
        whole: str = found[0]
        return whole[1:] if found[1] else self._named(found[2], place) or whole

    def _object(self, value: dict[str, Any], place: Place) -> Any:
        if is_reference(value):
            return self._named(value["id"], place) or value
        if is_fetched(value) and self._fetch is not None:
            try:
                return self._fetch(value)
            except ConfigError as error:
                self.issues.append(ConfigIssue(show_place(place), str(error), error.remedy))
                return value
        message = (
            "a secret is referred to as {source, provider, id}, or {source: 'env', id: 'NAME'}."
        )
        self.issues.append(ConfigIssue(show_place(place), message, "Use ${NAME}, or that form."))
        return value

    def _named(self, name: str, place: Place) -> str:
        text = self._environ.get(name, "")
        if text:
            self.used[name] = text
        else:
            message = f"the variable {name} is missing or empty."
            remedy = f"Set {name} for the gateway, or in env.vars; or write the value itself."
            self.issues.append(ConfigIssue(show_place(place), message, remedy))
        return text


def refers(value: Any) -> bool:
    """Returns whether a reference stands anywhere in the tree."""
    match value:
        case str():
            return any(not found[1] for found in _REFERENCE.finditer(value))
        case list():
            return any(map(refers, value))
        case dict():
            return is_reference(value) or is_fetched(value) or any(map(refers, value.values()))
        case _:
            return False


def names(value: Any) -> Iterator[str]:
    """Yields the name of every variable that the tree refers to."""
    match value:
        case str():
            yield from (found[2] for found in _REFERENCE.finditer(value) if not found[1])
        case list():
            for one in value:
                yield from names(one)
        case dict() if is_reference(value):
            yield value["id"]
        case dict():
            for one in value.values():
                yield from names(one)
        case _:
            pass
