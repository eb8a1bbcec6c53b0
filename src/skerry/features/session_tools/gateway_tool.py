"""The tool `gateway`: reads the configuration, and changes keys that weaken no protection."""

from collections.abc import Iterator
from pathlib import Path
from typing import Any, Final, Literal

from pydantic import BaseModel, ConfigDict, Field

from skerry.config.source import parse_any
from skerry.features.session_tools.common import ALIASES, READ_ONLY, HostTool, caller_of, reply
from skerry.model.errors import ConfigInvalidError, ToolError
from skerry.model.origin import Origin
from skerry.model.tool import ToolResult, ToolSpec
from skerry.policy.access import ADMIN, Verb
from skerry.ports.tool import ToolContext
from skerry.sdk.arguments import named

CHANGEABLE: Final = (
    ("agents", "defaults", "thinkingDefault"),
    ("agents", "defaults", "userTimezone"),
    ("agents", "defaults", "timeoutSeconds"),
    ("messages",),
    ("session", "idleMinutes"),
    ("session", "reset"),
    ("session", "resetByChannel"),
    ("session", "resetByType"),
)
"""Keys that a model may change. None of them decides which tools, commands, files, senders or
addresses are allowed, the addresses of models, the loaded code, or who may connect."""


class GatewayParams(BaseModel):
    """Parameters of `gateway`."""

    model_config = ConfigDict(frozen=True, extra="ignore")

    action: Literal["config.get", "config.schema", "config.patch", "restart", "config.apply"]
    raw: str = Field(default="", max_length=65_536, description="JSON5 to merge.")
    baseHash: str = Field(default="", max_length=128)  # noqa: N815 - OpenClaw's name


class GatewayTool(HostTool):
    """Reads and changes the configuration for the owner."""

    verb = Verb.USE
    spec = ToolSpec(
        "gateway",
        "Read the configuration, or merge a patch into it.",
        GatewayParams.model_json_schema(),
    )

    async def run(self, arguments: dict[str, Any], context: ToolContext) -> ToolResult:
        """Returns the payload of the method as JSON; secrets are hidden."""
        params = GatewayParams.model_validate(named(arguments, ALIASES, ("action",)))
        if not caller_of(context).is_private:
            raise ToolError("Only the owner may read the configuration, in a private session.")
        if params.action in {"restart", "config.apply"}:
            raise ToolError(
                f"{params.action} is reserved for your owner: skerry gateway, skerry config edit."
            )
        if params.action == "config.get":
            file = await self._ask("config.get", {})
            return reply({"config": file.get("config"), "hash": file.get("hash")}, Origin.MEMORY)
        if params.action == "config.schema":
            return reply({"changeable": [".".join(key) for key in CHANGEABLE]}, Origin.MEMORY)
        refused = sorted({".".join(path) for path in _paths(_parsed(params.raw)) if not _may(path)})
        if refused:
            raise ToolError(
                f"A model may not change {', '.join(refused)}. Show your owner the change; they"
                " make it with skerry config set."
            )
        patch = {"raw": params.raw, "baseHash": params.baseHash or await self._hash()}
        answer = await self._host.call("config.patch", patch, (*READ_ONLY, ADMIN))
        return reply({"ok": True, "hash": answer.get("hash")}, Origin.MEMORY)

    async def _hash(self) -> str:
        return str((await self._ask("config.get", {})).get("hash") or "")


def _parsed(raw: str) -> dict[str, Any]:
    try:
        value = parse_any(Path("raw"), raw)
    except (ConfigInvalidError, ValueError, RecursionError) as error:
        raise ToolError("raw is not JSON5. Pass an object of the keys to change.") from error
    if not isinstance(value, dict) or not value:
        raise ToolError("raw is not an object of the keys to change.")
    return value


def _paths(value: Any, above: tuple[str, ...] = ()) -> Iterator[tuple[str, ...]]:
    """Yields the path of each value that a patch sets; an empty object is a value."""
    if isinstance(value, dict) and value:
        for name, part in value.items():
            yield from _paths(part, (*above, str(name)))
    else:
        yield above


def _may(path: tuple[str, ...]) -> bool:
    return any(path[: len(key)] == key for key in CHANGEABLE) and "$include" not in path
