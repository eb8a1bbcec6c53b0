"""Options of the plugin: `plugins.entries.memory-memwal.config`, checked and with its defaults."""

import os
import re
from collections.abc import Callable, Mapping
from typing import Any, Final

from msgspec import Struct, field

from skerry.sdk.errors import PluginError

PLUGIN: Final = "memory-memwal"
RECALL_SECONDS: Final = 3.0
"""Time limit of a recall without `requestTimeoutMs`."""
MAX_RECALL_SECONDS: Final = 9.0
"""Upper bound of the time limit of a recall: the hook has ten seconds."""
REQUEST_SECONDS: Final = 10.0
"""Time limit of other requests without `requestTimeoutMs`."""
MAX_SECONDS: Final = 30.0
"""Upper bound of the time limit of a request."""

_VARIABLE: Final = re.compile(r"\$\{([^}]+)\}")
_KEY: Final = re.compile(r"[0-9a-fA-F]{64}")
_ACCOUNT: Final = re.compile(r"0x[0-9a-fA-F]{10,}")
_URL: Final = re.compile(r"https?://[^\s/?#]+\S*")
_KEY_TEXT: Final = "must be a 64-character hex string (delegate key)"
_ACCOUNT_TEXT: Final = "must be a Sui object ID (0x...)"
_NAMESPACE_TEXT: Final = 'must not contain quotes (") or newline characters'
E2E: Final = "e2e"
"""Mode in which the plugin itself encrypts and embeds."""
_MODES: Final = ("relayer", E2E)


class Keys(Struct, frozen=True):
    """A delegate key and its account."""

    private_key: str
    """64 hexadecimal digits."""
    account_id: str

    @property
    def preview(self) -> str:
        """Returns the first and last four characters of the key, for display."""
        key = self.private_key
        return f"{key[:4]}...{key[-4:]}" if len(key) > 8 else "****"  # noqa: PLR2004 - twice four


class Options(Struct, frozen=True):
    """Checked options."""

    keys: Keys
    server_url: str
    default_namespace: str = "default"
    auto_recall: bool = True
    auto_capture: bool = True
    max_recall_results: int = 5
    min_relevance: float = 0.3
    capture_max_messages: int = 10
    request_timeout_ms: float | None = None
    mode: str = "relayer"
    agents: Mapping[str, Keys] = field(default_factory=dict)
    """Keys of agents that have their own."""

    @property
    def recall_seconds(self) -> float:
        """Returns the limit of a recall, in seconds."""
        limit_ms = self.request_timeout_ms
        return RECALL_SECONDS if limit_ms is None else min(limit_ms / 1000, MAX_RECALL_SECONDS)

    @property
    def request_seconds(self) -> float:
        """Returns the limit of other requests, in seconds."""
        limit_ms = self.request_timeout_ms
        return REQUEST_SECONDS if limit_ms is None else min(limit_ms / 1000, MAX_SECONDS)

    def keys_of(self, agent: str) -> Keys:
        """Returns the keys of an agent."""
        return self.agents.get(agent, self.keys)


def parse(config: object, environ: Mapping[str, str] = os.environ) -> Options:
    """Returns the options of a configuration; replaces `${NAME}` in its texts from `environ`.

    Raises:
        PluginError: a variable is not set, or values are wrong; the message names all of them.
    """
    if not isinstance(config, Mapping) or not config:
        raise PluginError(
            f"{PLUGIN}: config is required",
            f"Set plugins.entries.{PLUGIN}.config, or run: skerry relayer init --connect",
        )
    values = _resolved(config, environ)
    faults: list[str] = []

    def checked_value(name: str, check: Callable[[Any], str], default: object = None) -> Any:
        value = values.get(name, default)
        if value is None and name not in values:
            if name in _REQUIRED:
                faults.append(f"  - {name}: Required")
            return None
        if message := check(value):
            faults.append(f"  - {name}: {message}")
            return None
        return value

    unknown_names = [name for name in values if name not in _CHECKS]
    faults += [f"  - {name}: is not an option of this plugin" for name in unknown_names]
    checked = {
        name: checked_value(name, check, _DEFAULTS.get(name)) for name, check in _CHECKS.items()
    }
    agents = _agents(values.get("agents", {}), checked, faults)
    if faults:
        raise PluginError(
            "\n".join((f"{PLUGIN}: invalid config:", *faults)),
            f"Correct plugins.entries.{PLUGIN}.config.",
        )
    return Options(
        Keys(checked["privateKey"].lower(), checked["accountId"]),
        checked["serverUrl"].rstrip("/"),
        checked["defaultNamespace"],
        checked["autoRecall"],
        checked["autoCapture"],
        int(checked["maxRecallResults"]),
        float(checked["minRelevance"]),
        int(checked["captureMaxMessages"]),
        checked["requestTimeoutMs"],
        checked["mode"],
        agents,
    )


def _resolved(value: Any, environ: Mapping[str, str]) -> Any:
    match value:
        case str():
            return _VARIABLE.sub(lambda match: _variable(match[1], environ), value)
        case Mapping():
            return {key: _resolved(member, environ) for key, member in value.items()}
        case list():
            return [_resolved(member, environ) for member in value]
        case _:
            return value


def _variable(name: str, environ: Mapping[str, str]) -> str:
    value = environ.get(name, "")
    if not value:
        raise PluginError(f"Environment variable {name} is not set", f"Set {name} for the gateway.")
    return value


def _agents(value: object, checked: Mapping[str, Any], faults: list[str]) -> dict[str, Keys]:
    """Returns the keys of agents; a missing part is taken from the options of the plugin."""
    if not isinstance(value, Mapping):
        faults.append("  - agents: must be an object")
        return {}
    agents: dict[str, Keys] = {}
    for agent, entry in value.items():
        if not isinstance(entry, Mapping):
            faults.append(f"  - agents.{agent}: must be an object")
            continue
        for name, member in entry.items():
            check = _CHECKS.get(name) if name in {"privateKey", "accountId"} else None
            message = check(member) if check is not None else "is not an option of an agent"
            if message:
                faults.append(f"  - agents.{agent}.{name}: {message}")
        key = entry.get("privateKey", checked["privateKey"])
        account = entry.get("accountId", checked["accountId"])
        if isinstance(key, str) and isinstance(account, str):
            agents[str(agent)] = Keys(key.lower(), account)
    return agents


def _matches(pattern: re.Pattern[str], message: str) -> Callable[[Any], str]:
    def check(value: Any) -> str:
        return "" if isinstance(value, str) and pattern.fullmatch(value) else message

    return check


def _between(low: float, high: float) -> Callable[[Any], str]:
    def check(value: Any) -> str:
        is_number = isinstance(value, int | float) and not isinstance(value, bool)
        fits = is_number and low <= value <= high
        return "" if fits else f"must be a number between {low:g} and {high:g}"

    return check


def _boolean(value: Any) -> str:
    return "" if isinstance(value, bool) else "must be a boolean"


def _namespace(value: Any) -> str:
    if not isinstance(value, str) or not value.strip():
        return "must not be empty"
    return _NAMESPACE_TEXT if any(char in value for char in '"\r\n') else ""


def _mode(value: Any) -> str:
    return "" if value in _MODES else f"must be one of {', '.join(_MODES)}"


_REQUIRED: Final = frozenset({"privateKey", "accountId", "serverUrl"})
_CHECKS: Final[Mapping[str, Callable[[Any], str]]] = {
    "privateKey": _matches(_KEY, _KEY_TEXT),
    "accountId": _matches(_ACCOUNT, _ACCOUNT_TEXT),
    "serverUrl": _matches(_URL, "must be a valid URL"),
    "defaultNamespace": _namespace,
    "autoRecall": _boolean,
    "autoCapture": _boolean,
    "maxRecallResults": _between(1, 20),
    "minRelevance": _between(0, 1),
    "captureMaxMessages": _between(1, 50),
    "requestTimeoutMs": _between(1000, 60000),
    "mode": _mode,
    "agents": lambda _: "",
}
_DEFAULTS: Final[Mapping[str, object]] = {
    "defaultNamespace": "default",
    "autoRecall": True,
    "autoCapture": True,
    "maxRecallResults": 5,
    "minRelevance": 0.3,
    "captureMaxMessages": 10,
    "mode": "relayer",
}
