"""What a change over the wire may touch, and what is for a person at the file alone."""

from collections.abc import Mapping
from typing import Any, Final

from skerry.config.expand import Expanded
from skerry.config.include import KEY
from skerry.config.paths import MISSING, Place, lookup, show_place, within
from skerry.config.references import refers
from skerry.config.source import Source
from skerry.model.errors import ConfigProtectedError

ALLOWED: Final = tuple(
    tuple(pattern.split("."))
    for pattern in (
        "$schema",
        "agents.defaults.maxConcurrent",
        "agents.defaults.model",
        "agents.defaults.models",
        "agents.defaults.thinkingDefault",
        "agents.defaults.timeoutSeconds",
        "agents.list.*.default",
        "agents.list.*.id",
        "agents.list.*.identity",
        "agents.list.*.model",
        "agents.list.*.name",
        "agents.list.*.thinkingDefault",
        "bindings",
        "gateway.drainSeconds",
        "gateway.mode",
        "gateway.port",
        "gateway.tickIntervalMs",
        "messages",
        "meta",
        "models.mode",
        "models.providers",
        "wizard",
    )
)
"""What clients may change. All else decides, or may do so in a later version, which code is loaded,
which commands run, which files are read or who may connect."""

CONTROL: Final[tuple[str, ...]] = ("gateway", "control")
FLAG: Final[Place] = (*CONTROL, "allowCodeChanges")
"""The second key to the rest; nothing on the wire sets it."""
_KEYS: Final = ("apiKey", "api_key", "headers")


def guard(before: Source, old: Expanded, new: Expanded, changed: list[Place]) -> None:
    """Refuse the change of a place that is not for the wire.

    Raises:
        ConfigProtectedError: it names the places, and what to do.
    """
    by_hand = [place for place in changed if within(place, CONTROL) or place == CONTROL[:1]]
    if by_hand:
        remedy = f"Edit {before.path} by hand."
        raise ConfigProtectedError(str(before.path), [*map(show_place, by_hand)], remedy)
    moved = list(_moved_keys(old.merged, new.merged))
    if moved:
        remedy = "Give the key anew with the new address: the old key is for the old one."
        raise ConfigProtectedError(str(before.path), moved, remedy)
    if lookup(old.tree, FLAG) is True:
        return
    refused = [
        show_place(place)
        for place in changed
        if not any(within(place, pattern) for pattern in ALLOWED)
        or _opens(old.merged, new.merged, place)
    ]
    if refused or _includes(old) != _includes(new):
        raise ConfigProtectedError(str(before.path), refused or [KEY], "")


def _opens(old: Mapping[str, Any], new: Mapping[str, Any], place: Place) -> bool:
    """Return whether a reference is new there: it could carry any variable to a stranger."""
    there = lookup(new, place)
    return there is not MISSING and refers(there) and there != lookup(old, place)


def _includes(expanded: Expanded) -> list[str]:
    return [str(file) for file in expanded.files]


def _moved_keys(old: Mapping[str, Any], new: Mapping[str, Any]) -> list[str]:
    """Return providers whose address changed while their key stayed."""
    providers = ("models", "providers")
    before, after = lookup(old, providers), lookup(new, providers)
    if not (isinstance(before, dict) and isinstance(after, dict)):
        return []
    return [
        f"models.providers.{name}.baseUrl"
        for name, one in after.items()
        if isinstance(one, dict)
        and isinstance(was := before.get(name), dict)
        and any(one.get(key) != was.get(key) for key in ("baseUrl", "base_url"))
        and any(secret in _secrets(was) for secret in _secrets(one))
    ]


def _secrets(provider: Mapping[str, Any]) -> list[Any]:
    """Return what is sent to the provider's address to prove who asks."""
    models = provider.get("models")
    listed = [one for one in models if isinstance(one, dict)] if isinstance(models, list) else []
    found = [one.get(key) for one in (provider, *listed) for key in _KEYS]
    return [one for one in found if one]
