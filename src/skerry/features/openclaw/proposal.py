"""Sorts the keys of a configuration from elsewhere: taken, asked for, or left to a person (pure).

The lists are those of `skerry.config.remote_write_policy`. Whatever names an address, a path or a
variable is asked for, wherever it is written; a secret that a program or a file gives is never
taken.
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
"""Keys of a platform that give people tools; no import takes them."""
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

    TAKEN = "taken"
    ASKED = "needs your yes"
    BY_HAND = "by hand"
    """Left out by an import; the person can set it."""
    REFUSED = "not taken"
    """A secret of another program, or a key that makes no sense without one that is not taken."""
    KEPT = "yours is kept"


@dataclass(frozen=True, slots=True)
class ProviderDefaults:
    """The address and the variables of a provider that the program has in its catalogue."""

    base_url: str
    variables: tuple[str, ...]


Catalogue = Callable[[str], ProviderDefaults | None]


@dataclass(frozen=True, slots=True)
class ProposedKey:
    """One key of the other configuration."""

    place: KeyPath
    value: JSON
    """Value without secrets."""
    outcome: KeyOutcome
    why: str = ""
    """Consequence of the key, or the reason why it is not taken."""

    @property
    def key(self) -> str:
        """Returns the key as a person writes it."""
        return show_key_path(self.place)

    @property
    def by_hand(self) -> str:
        """Returns the command that sets it; empty where there is nothing to set."""
        if self.outcome is not KeyOutcome.BY_HAND:
            return ""
        return f"skerry config set {self.key} VALUE"


def sorted_out(
    tree: Mapping[str, Any], catalogue: Catalogue, yes: Collection[str] = ()
) -> list[ProposedKey]:
    """Returns a line for each key of the tree, in its order.

    Args:
        tree: One that the check takes, references as they are written.
        catalogue: The providers that are known.
        yes: The keys that a person has agreed to.

    """
    lines = [_line(key_path, value, tree, catalogue, yes) for key_path, value in _keys(tree)]
    lines = [_with_provider(line, lines) for line in lines]
    return [_with_model(line, tree, lines, catalogue) for line in lines]


def taken(tree: Mapping[str, Any], lines: Collection[ProposedKey]) -> dict[str, Any]:
    """Returns the tree with only the keys that are taken."""
    new: Any = dict(tree)
    for line in lines:
        if line.outcome is not KeyOutcome.TAKEN:
            new = replaced(new, line.place, MISSING)
    made: dict[str, Any] = without_empty(new)
    return made


def _keys(tree: Any, key_path: KeyPath = ()) -> Iterator[tuple[KeyPath, Any]]:
    """Yields the keys with their values; a list is one value, but for the list of the agents."""
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
    shown = _shown(key_path, value)
    if key_path[:2] == ("secrets", "providers"):
        return ProposedKey(
            key_path, shown, KeyOutcome.REFUSED, "where secrets are fetched is for you to say"
        )
    if program := next(_fetched(value), None):
        why = f"its secret comes from {program}, which is neither asked nor run"
        return ProposedKey(key_path, shown, KeyOutcome.REFUSED, why)
    where = _destination(key_path, value, tree, catalogue) if key_path else ""
    agreed = KeyOutcome.TAKEN if show_key_path(key_path) in yes else KeyOutcome.ASKED
    outcome, why = KeyOutcome.BY_HAND, "an import does not decide this"
    if confirmed := _consequence(key_path, value):
        outcome, why = agreed, f"{confirmed}; {where}" if where else confirmed
    elif _is_off(key_path, value):
        outcome, why = KeyOutcome.TAKEN, ""
    elif key_path[:1] == CHANNELS and key_path[1:] and key_path[1] not in PLATFORMS:
        outcome, why = KeyOutcome.REFUSED, f"this version has no adapter for {key_path[1]}"
    elif any(within(key_path, pattern) for pattern in IMPORTED):
        outcome, why = agreed if where else KeyOutcome.TAKEN, where
    return ProposedKey(key_path, shown, outcome, why)


def _consequence(key_path: KeyPath, value: Any) -> str:
    """Returns the reason why a person is asked for the key itself; empty where nobody is."""
    of_channel = key_path[:1] == CHANNELS
    strange = of_channel and not (key_path[1:] and key_path[1] in PLATFORMS)
    if strange or _is_off(key_path, value) or (of_channel and not _TOOLS.isdisjoint(key_path)):
        return ""
    return next((why for pattern, why in CONFIRMED.items() if within(key_path, pattern)), "")


def _is_off(key_path: KeyPath, value: Any) -> bool:
    """Returns whether the key switches heartbeats off, which needs no agreement."""
    return key_path[-2:] == ("heartbeat", "every") and value in (0, *_NEVER)


def _destination(key_path: KeyPath, value: Any, tree: Any, catalogue: Catalogue) -> str:
    """Returns where the value leads to, in words; empty where it stays inside."""
    of_provider = key_path[:2] == PROVIDERS and len(key_path) > len(PROVIDERS)
    provider = catalogue(str(key_path[2])) if of_provider else None
    own = provider is not None and _is_own(provider, lookup(tree, key_path[:3]))
    texts = list(_texts(value))
    may = provider.variables if own and provider is not None else ()
    if foreign := [name for name in names(value) if name not in may]:
        to = (
            _address(lookup(tree, key_path[:3]))
            if key_path[:2] == PROVIDERS
            else "the configuration"
        )
        return f"your variable {', '.join(dict.fromkeys(foreign))} goes to {to}"
    if key_path[-1] in _ADDRESSES and key_path[:2] == PROVIDERS:
        return "" if own else f"conversations and the key go to {value}"
    if any("://" in text for text in texts):
        return "it is an address"
    return "it is a path" if any(_PATH.match(text) for text in texts) else ""


def _is_own(catalogued: ProviderDefaults, provider: Any) -> bool:
    return _address(provider).rstrip("/") == catalogued.base_url


def _address(provider: Any) -> str:
    addresses = [provider.get(key) for key in _ADDRESSES] if isinstance(provider, dict) else []
    return next((str(address) for address in addresses if address is not None), "")


def _with_provider(line: ProposedKey, lines: Collection[ProposedKey]) -> ProposedKey:
    """Returns the line of a provider as the line of its address has it: they belong together."""
    if line.place[:2] != PROVIDERS or line.place[-1] in _ADDRESSES:
        return line
    whole = line.place[:3]
    lacks = [other for other in lines if other.place[:3] == whole and other.place[-1] in _ADDRESSES]
    if line.outcome is KeyOutcome.TAKEN and lacks and lacks[0].outcome is not KeyOutcome.TAKEN:
        return replace(line, outcome=KeyOutcome.REFUSED, why=f"it belongs to {lacks[0].key}")
    return line


def _with_model(
    line: ProposedKey, tree: Any, lines: Collection[ProposedKey], catalogue: Catalogue
) -> ProposedKey:
    """Returns the line of a model of a provider that is not taken as one that is not either."""
    if line.outcome is not KeyOutcome.TAKEN or not any(
        within(line.place, pattern) for pattern in _MODELS
    ):
        return line
    texts = [*_texts(lookup(tree, line.place)), *(str(part) for part in line.place[3:])]
    for provider in {text.partition("/")[0] for text in texts if "/" in text}:
        own = [other for other in lines if other.place[:3] == (*PROVIDERS, provider)]
        address = [other for other in own if other.place[-1] in _ADDRESSES]
        if address and address[0].outcome is not KeyOutcome.TAKEN and catalogue(provider) is None:
            return replace(line, outcome=KeyOutcome.REFUSED, why=f"it belongs to {address[0].key}")
    return line


def _shown(key_path: KeyPath, value: Any) -> Any:
    """Returns the value as it may be printed."""
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
    """Yields in words where each secret of the value comes from that no variable has."""
    for leaf in leaves(value):
        if is_fetched(leaf):
            yield f"the {leaf['source']} provider {leaf['provider']!r}"


def _texts(value: Any) -> Iterator[str]:
    return (leaf for leaf in leaves(value) if isinstance(leaf, str))
