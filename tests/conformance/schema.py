"""The published schema of the protocol, as a judge of every frame that we send."""

import json
from functools import cache
from pathlib import Path
from typing import Any

from jsonschema import Draft7Validator

HERE = Path(__file__).parent / "node"
PUBLISHED = HERE / "node_modules/@openclaw/gateway-protocol/protocol.schema.json"

RESULTS = {"models.list": "ModelsListResult", "agents.list": "AgentsListResult"} | {
    "agent.identity.get": "AgentIdentityResult",
    "channels.status": "ChannelsStatusResult",
    "exec.approvals.get": "ExecApprovalsSnapshot",
    "logs.tail": "LogsTailResult",
    "skills.bins": "SkillsBinsResult",
    "sessions.resolve": "SessionsResolveResult",
    "sessions.delete": "SessionsDeleteResult",
    "connect": "HelloOk",
    "system-presence": None,
}
EVENTS = {"agent": "AgentEvent", "chat": "ChatEvent", "tick": "TickEvent"} | {
    "shutdown": "ShutdownEvent",
}


@cache
def definitions() -> dict[str, Any]:
    """Returns the definitions, open: the live peer itself sends more than they list."""
    definitions: dict[str, Any] = opened(json.loads(PUBLISHED.read_text())["definitions"])
    return definitions


def opened(schema: Any) -> Any:
    """Returns the schema without its `additionalProperties: false`."""
    if isinstance(schema, dict):
        return {
            key: opened(value)
            for key, value in schema.items()
            if not (key == "additionalProperties" and value is False)
        }
    return [opened(one) for one in schema] if isinstance(schema, list) else schema


@cache
def validator(name: str) -> Draft7Validator:
    """Returns the judge of one definition."""
    return Draft7Validator(definitions()[name])


def problems(name: str, value: object) -> list[str]:
    """Returns the faults of `value` as a `name`."""
    return [
        f"{name} {list(error.path)}: {error.message}"
        for error in validator(name).iter_errors(value)
    ]


def judge(frame: dict[str, Any], method: str | None = None) -> list[str]:
    """Returns the faults of a frame that we sent; `method` is the method of a response."""
    if frame["type"] == "event":
        found = problems("EventFrame", frame)
        payload = EVENTS.get(frame["event"])
        if payload:
            found += problems(payload, frame["payload"])
        if frame["event"] == "presence":
            found += listed("PresenceEntry", frame["payload"]["presence"])
        return found
    found = problems("ResponseFrame", frame)
    if not frame["ok"]:
        found += problems("ErrorShape", frame["error"])
    elif method == "system-presence":
        found += listed("PresenceEntry", frame["payload"])
    elif (name := RESULTS.get(method or "")) is not None:
        found += problems(name, frame["payload"])
    return found


def listed(name: str, values: list[object]) -> list[str]:
    """Returns the faults of all `values`."""
    return [problem for value in values for problem in problems(name, value)]
