"""Keys that clients may change; all others are changed only by editing the file."""

from collections.abc import Callable, Iterator, Mapping
from typing import Any, Final

from skerry.config.expand import Expanded
from skerry.config.include import KEY
from skerry.config.paths import MISSING, KeyPath, lookup, show_key_path, within
from skerry.config.references import refers
from skerry.config.source import Source
from skerry.model.errors import ConfigProtectedError

Pattern = tuple[str, ...]


def _patterns(*texts: str) -> tuple[Pattern, ...]:
    return tuple(tuple(text.split(".")) for text in texts)


ALLOWED: Final = _patterns(
    "$schema",
    "agents.defaults.imageModel",
    "agents.defaults.maxConcurrent",
    "agents.defaults.model",
    "agents.defaults.models",
    "agents.defaults.thinkingDefault",
    "agents.defaults.timeoutSeconds",
    "agents.defaults.userTimezone",
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
    "session.idleMinutes",
    "session.reset",
    "session.resetByChannel",
    "session.resetByType",
    "wizard",
)
"""Keys that clients may change. Every other key decides, or may do so in a later version, which
code is loaded, which commands run, which files are read or who may connect. An agent's id and the
choice of the default agent are not included: they change workspaces, and a new workspace could load
code that its owner has not seen."""
IMPORTED: Final = (
    *ALLOWED,
    *_patterns(
        "agents.defaults.heartbeat.activeHours",
        "agents.list.*.default",
        "agents.list.*.heartbeat.activeHours",
        "agents.list.*.id",
        "hooks.internal.entries.session-memory",
    ),
)
"""Keys that an import may change: in addition the list of agents, because their files are imported
too, the bundled hook that only writes notes, and the active hours of heartbeats."""
AGENTS: Final = _patterns("agents.list")
"""Keys that the gateway's methods about agents change in addition; clients do not write their
text."""
_COMMANDS: Final = "it decides which commands of agents run without approval on this machine"
_BY_ITSELF: Final = "the agent periodically follows HEARTBEAT.md of its workspace, this often"
CONFIRMED: Final = {
    ("agents", "defaults", "heartbeat", "every"): _BY_ITSELF,
    ("agents", "list", "*", "heartbeat", "every"): _BY_ITSELF,
    ("channels",): "it decides who may write to your agents, and on which account",
    ("hooks", "internal", "entries", "boot-md"): "BOOT.md of the workspace runs at each start",
    ("agents", "list", "*", "tools", "exec", "ask"): _COMMANDS,
    ("agents", "list", "*", "tools", "exec", "security"): _COMMANDS,
    ("tools", "exec", "ask"): _COMMANDS,
    ("tools", "exec", "security"): _COMMANDS,
    ("session", "dmScope"): "it decides whose direct messages share a conversation",
    ("session", "identityLinks"): "it decides which senders are one person",
}
"""Keys that an import changes after a confirmation, each with the reason. All other keys are
changed only by editing the file."""

CONTROL: Final[tuple[str, ...]] = ("gateway", "control")
FLAG: Final[KeyPath] = (*CONTROL, "allowCodeChanges")
"""Key that permits clients to change all other keys; no client can set it."""
_KEYS: Final = ("apiKey", "api_key")


def guard(
    before: Source,
    old: Expanded,
    new: Expanded,
    changed: list[KeyPath],
    *,
    borrows: Callable[[str, object], bool],
    also: tuple[Pattern, ...] = (),
) -> None:
    """Refuses a change of keys that clients may not change.

    Args:
        before: The file.
        old: Expansion of the file.
        new: Expansion after the change.
        changed: Key paths at which the two differ.
        borrows: Returns whether a provider, by name, would use a key of the environment at an
            address that is not the one of its service, if it has no key in the file.
        also: Patterns of keys that may be changed in addition.

    Raises:
        ConfigProtectedError: it has the refused key paths and the remedy.
    """
    by_hand = [
        key_path for key_path in changed if within(key_path, CONTROL) or key_path == CONTROL[:1]
    ]
    if by_hand:
        remedy = f"Edit {before.path} by hand."
        raise ConfigProtectedError(str(before.path), [*map(show_key_path, by_hand)], remedy)
    moved = list(_moved_keys(old.merged, new.merged, borrows))
    if moved:
        remedy = "Set the API key again with the new address: the old key is for the old address."
        raise ConfigProtectedError(str(before.path), moved, remedy)
    if lookup(old.tree, FLAG) is True:
        return
    refused = [
        show_key_path(key_path)
        for key_path in changed
        if not any(within(key_path, pattern) for pattern in (*ALLOWED, *also))
        or _opens(old.merged, new.merged, key_path)
    ]
    if refused or old.includes.files != new.includes.files:
        raise ConfigProtectedError(str(before.path), refused or [KEY], "")


def _opens(old: Mapping[str, Any], new: Mapping[str, Any], key_path: KeyPath) -> bool:
    """Returns whether the change adds a reference, which could send any variable to a stranger."""
    value = lookup(new, key_path)
    return value is not MISSING and refers(value) and value != lookup(old, key_path)


def _moved_keys(
    old: Mapping[str, Any], new: Mapping[str, Any], borrows: Callable[[str, object], bool]
) -> Iterator[str]:
    """Yields the providers that would send a stored key to a new address."""
    before = _providers(old)
    for name, provider in _providers(new).items():
        was = before.get(name, {})
        same = was if _addresses(was) == _addresses(provider) else {}
        strange = any(borrows(name, address) for address in _addresses(provider))
        lent = strange and not _own_key(provider) and (not same or _own_key(same))
        reuses_secret = not same and any(key in _secrets(was) for key in _secrets(provider))
        if lent or reuses_secret:
            yield f"models.providers.{name}.baseUrl"


def _providers(tree: Mapping[str, Any]) -> dict[str, dict[str, Any]]:
    section = lookup(tree, ("models", "providers"))
    listed = section.items() if isinstance(section, dict) else ()
    return {name: provider for name, provider in listed if isinstance(provider, dict)}


def _addresses(provider: Mapping[str, Any]) -> list[object]:
    addresses = (provider.get(key) for key in ("baseUrl", "base_url"))
    return [address for address in addresses if address is not None]


def _own_key(provider: Mapping[str, Any]) -> bool:
    """Returns whether the provider has a key in the file; an empty text is none."""
    keys = (provider.get(key) for key in _KEYS)
    return any(key.strip() if isinstance(key, str) else key for key in keys)


def _secrets(provider: Mapping[str, Any]) -> list[Any]:
    """Returns the secrets that are sent to the provider's address, each header separately."""
    models = provider.get("models")
    listed = (
        [model for model in models if isinstance(model, dict)] if isinstance(models, list) else []
    )
    secrets = [section.get(key) for section in (provider, *listed) for key in _KEYS]
    for section in (provider, *listed):
        headers = section.get("headers")
        secrets += headers.values() if isinstance(headers, dict) else [headers]
    return [secret for secret in secrets if secret]
