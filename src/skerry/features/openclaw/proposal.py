"""Sorts the keys of a foreign configuration into accepted, asked and refused ones (pure).

The lists are those of `skerry.config.remote_write_policy`. A value that names an address, a path or
a variable needs consent wherever it is written; a secret that a program or a file supplies is never
imported.
"""

import re
from collections.abc import Callable, Collection, Iterator, Mapping
from dataclasses import dataclass, replace
from enum import StrEnum
from typing import Any, Final

from skerry.config.paths import (
    MISSING,
    KeyPath,
    lookup,
    replaced,
    show_key_path,
    within,
    without_empty,
)
from skerry.config.redact import (
    JSON,
    REDACTED,
    is_fetched,
    is_reference,
    leaves,
    redact,
    with_leaves,
)
from skerry.config.references import names
from skerry.config.remote_write_policy import CONFIRMED, IMPORTED
from skerry.infra.channels import PLATFORMS

HIDDEN: Final = "(hidden)"
PROVIDERS: Final = ("models", "providers")
CHANNELS: Final = ("channels",)
_TOOLS: Final = frozenset({"tools", "toolsBySender"})
"""Keys of a platform that give people tools; an import never sets them."""
_NEVER: Final = ("0", "0m", "0s", "0h")
_ADDRESSES: Final = ("baseUrl", "base_url")
_MODELS: Final = (
    ("agents", "defaults", "model"),
    ("agents", "defaults", "models"),
    ("agents", "list", "*", "model"),
)
_PATH: Final = re.compile(r"(?:[~/\\]|\.\.?/|[A-Za-z]:\\)")


class KeyOutcome(StrEnum):
    """Result for one key."""

    ACCEPTED = "taken"
    NEEDS_CONSENT = "needs your yes"
    BY_HAND = "by hand"
    """Not imported; the person can set it."""
    REFUSED = "not taken"
    """A secret of another program, or a key that needs another key that is refused."""
    CURRENT_KEPT = "yours is kept"


@dataclass(frozen=True, slots=True)
class ProviderDefaults:
    """Address and variables of a provider in the catalogue."""

    base_url: str
    variables: tuple[str, ...]


Catalogue = Callable[[str], ProviderDefaults | None]


@dataclass(frozen=True, slots=True)
class ProposedKey:
    """One key of the imported configuration."""

    key_path: KeyPath
    value: JSON
    """Value with its secrets hidden."""
    outcome: KeyOutcome
    reason: str = ""
    """Consequence of the key, or the reason why it is not imported."""

    @property
    def key(self) -> str:
        """Returns the key as a person writes it."""
        return show_key_path(self.key_path)

    @property
    def by_hand(self) -> str:
        """Returns the command that sets the key; empty where a person cannot set it."""
        if self.outcome is not KeyOutcome.BY_HAND:
            return ""
        return f"skerry config set {self.key} VALUE"


def sorted_out(
    tree: Mapping[str, Any], catalogue: Catalogue, yes: Collection[str] = ()
) -> list[ProposedKey]:
    """Returns a line for each key of the tree, in its order.

    Args:
        tree: A tree that passed the check, with unresolved references.
        catalogue: Finds the defaults of a provider by its id.
        yes: Keys that the person has agreed to.

    """
    lines = [_line(key_path, value, tree, catalogue, yes) for key_path, value in _keys(tree)]
    lines = [_with_provider(line, lines) for line in lines]
    return [_with_model(line, tree, lines, catalogue) for line in lines]


def accepted_tree(tree: Mapping[str, Any], lines: Collection[ProposedKey]) -> dict[str, Any]:
    """Returns the tree with only the accepted keys."""
    new: Any = dict(tree)
    for line in lines:
        if line.outcome is not KeyOutcome.ACCEPTED:
            new = replaced(new, line.key_path, MISSING)
    result: dict[str, Any] = without_empty(new)
    return result


def _keys(tree: Any, key_path: KeyPath = ()) -> Iterator[tuple[KeyPath, Any]]:
    """Yields the keys with their values; a list is one value, except the list of the agents."""
    if isinstance(tree, list) and key_path == ("agents", "list"):
        for number, element in enumerate(tree):
            yield from _keys(element, (*key_path, number))
    elif isinstance(tree, dict) and tree and not (is_reference(tree) or is_fetched(tree)):
        for key, element in tree.items():
            yield from _keys(element, (*key_path, key))
    else:
        yield key_path, tree


def _line(
    key_path: KeyPath, value: Any, tree: Any, catalogue: Catalogue, yes: Collection[str]
) -> ProposedKey:
    printable = _printable(key_path, value)
    if key_path[:2] == ("secrets", "providers"):
        return ProposedKey(
            key_path, printable, KeyOutcome.REFUSED, "only you can decide where secrets are fetched"
        )
    if program := next(_fetched(value), None):
        reason = f"{program} supplies its secret, and an import runs no program"
        return ProposedKey(key_path, printable, KeyOutcome.REFUSED, reason)
    destination = _destination(key_path, value, tree, catalogue) if key_path else ""
    agreed = KeyOutcome.ACCEPTED if show_key_path(key_path) in yes else KeyOutcome.NEEDS_CONSENT
    outcome, reason = KeyOutcome.BY_HAND, "an import does not decide this"
    if confirmed := _consequence(key_path, value):
        outcome, reason = agreed, f"{confirmed}; {destination}" if destination else confirmed
    elif _is_off(key_path, value):
        outcome, reason = KeyOutcome.ACCEPTED, ""
    elif key_path[:1] == CHANNELS and key_path[1:] and key_path[1] not in PLATFORMS:
        outcome, reason = KeyOutcome.REFUSED, f"this version has no adapter for {key_path[1]}"
    elif any(within(key_path, pattern) for pattern in IMPORTED):
        outcome, reason = agreed if destination else KeyOutcome.ACCEPTED, destination
    return ProposedKey(key_path, printable, outcome, reason)


def _consequence(key_path: KeyPath, value: Any) -> str:
    """Returns the reason why the key itself needs consent, or an empty string."""
    of_channel = key_path[:1] == CHANNELS
    strange = of_channel and not (key_path[1:] and key_path[1] in PLATFORMS)
    if strange or _is_off(key_path, value) or (of_channel and not _TOOLS.isdisjoint(key_path)):
        return ""
    return next((reason for pattern, reason in CONFIRMED.items() if within(key_path, pattern)), "")


def _is_off(key_path: KeyPath, value: Any) -> bool:
    """Returns true when the key switches heartbeats off, which needs no consent."""
    return key_path[-2:] == ("heartbeat", "every") and value in (0, *_NEVER)


def _destination(key_path: KeyPath, value: Any, tree: Any, catalogue: Catalogue) -> str:
    """Describes the address, path or variable in the value; empty where it has none."""
    of_provider = key_path[:2] == PROVIDERS and len(key_path) > len(PROVIDERS)
    provider = catalogue(str(key_path[2])) if of_provider else None
    is_catalogued = provider is not None and _is_own(provider, lookup(tree, key_path[:3]))
    texts = list(_texts(value))
    may = provider.variables if is_catalogued and provider is not None else ()
    if foreign := [name for name in names(value) if name not in may]:
        to = (
            _address(lookup(tree, key_path[:3]))
            if key_path[:2] == PROVIDERS
            else "the configuration"
        )
        return f"your variable {', '.join(dict.fromkeys(foreign))} goes to {to}"
    if key_path[-1] in _ADDRESSES and key_path[:2] == PROVIDERS:
        return "" if is_catalogued else f"conversations and the key go to {value}"
    if any("://" in text for text in texts):
        return "the value is an address"
    return "the value is a path" if any(_PATH.match(text) for text in texts) else ""


def _is_own(catalogued: ProviderDefaults, provider: Any) -> bool:
    return _address(provider).rstrip("/") == catalogued.base_url


def _address(provider: Any) -> str:
    addresses = [provider.get(key) for key in _ADDRESSES] if isinstance(provider, dict) else []
    return next((str(address) for address in addresses if address is not None), "")


def _with_provider(line: ProposedKey, lines: Collection[ProposedKey]) -> ProposedKey:
    """Gives a key of a provider the outcome of the provider's address."""
    if line.key_path[:2] != PROVIDERS or line.key_path[-1] in _ADDRESSES:
        return line
    whole = line.key_path[:3]
    lacks = [
        candidate
        for candidate in lines
        if candidate.key_path[:3] == whole and candidate.key_path[-1] in _ADDRESSES
    ]
    if (
        line.outcome is KeyOutcome.ACCEPTED
        and lacks
        and lacks[0].outcome is not KeyOutcome.ACCEPTED
    ):
        return replace(line, outcome=KeyOutcome.REFUSED, reason=f"it belongs to {lacks[0].key}")
    return line


def _with_model(
    line: ProposedKey, tree: Any, lines: Collection[ProposedKey], catalogue: Catalogue
) -> ProposedKey:
    """Refuses a model whose provider is refused."""
    if line.outcome is not KeyOutcome.ACCEPTED or not any(
        within(line.key_path, pattern) for pattern in _MODELS
    ):
        return line
    texts = [*_texts(lookup(tree, line.key_path)), *(str(part) for part in line.key_path[3:])]
    for provider in {text.partition("/")[0] for text in texts if "/" in text}:
        provider_lines = [
            candidate for candidate in lines if candidate.key_path[:3] == (*PROVIDERS, provider)
        ]
        address = [
            candidate for candidate in provider_lines if candidate.key_path[-1] in _ADDRESSES
        ]
        if (
            address
            and address[0].outcome is not KeyOutcome.ACCEPTED
            and catalogue(provider) is None
        ):
            return replace(
                line, outcome=KeyOutcome.REFUSED, reason=f"it belongs to {address[0].key}"
            )
    return line


def _printable(key_path: KeyPath, value: Any) -> Any:
    """Returns the value with its secrets hidden."""
    parts = [part for part in key_path if isinstance(part, str)]
    for part in reversed(parts):
        value = {part: value}
    value = redact(value)
    for part in parts:
        value = value[part]
    return _hidden(value)


def _hidden(value: Any) -> Any:
    return with_leaves(
        value, lambda leaf: leaf.replace(REDACTED, HIDDEN) if isinstance(leaf, str) else leaf
    )


def _fetched(value: Any) -> Iterator[str]:
    """Yields a description of each secret provider that the value uses, except variables."""
    for leaf in leaves(value):
        if is_fetched(leaf):
            yield f"the {leaf['source']} provider {leaf['provider']!r}"


def _texts(value: Any) -> Iterator[str]:
    return (leaf for leaf in leaves(value) if isinstance(leaf, str))
