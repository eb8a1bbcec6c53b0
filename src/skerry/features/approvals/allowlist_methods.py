"""Methods for permanently allowed commands: the allowlist, also in OpenClaw's file format."""

import hashlib
from typing import Annotated, Any, Final

import msgspec
from pydantic import Field

from skerry.config.exec_approvals import ApprovalsFile, FileEntry
from skerry.features.approvals import wire
from skerry.gateway.frames import Json
from skerry.gateway.method import Call, Method, NoParams, Params, RefusedError
from skerry.policy.command_patterns import problem
from skerry.store import DATABASE, Unit, allowlist
from skerry.store.allowlist import AllowedPattern

EVERY_AGENT: Final = "*"
_Agent = Annotated[str, Field(min_length=1, max_length=64)]
_Pattern = Annotated[str, Field(min_length=1, max_length=1024, pattern=r"^[^\x00-\x1f\x7f]+$")]


class AllowlistParams(Params):
    """Parameters of `exec.allowlist.list`; without an agent, the patterns of all agents."""

    agent_id: _Agent | None = None


class PatternParams(Params):
    """Pattern to act on. The agent `*` is every agent."""

    agent_id: _Agent | None = None
    pattern: _Pattern


class AllowlistSetParams(Params):
    """Parameters of `exec.approvals.set`: the whole file, and the hash of the read file."""

    file: ApprovalsFile
    base_hash: Annotated[str, Field(min_length=1, max_length=128)] | None = None


async def allowlist_list(call: Call, params: AllowlistParams) -> Json:
    """Returns the patterns, each with its last use."""
    agent = _agent(call, params.agent_id) if params.agent_id else None
    rows = await call.context.store.read(lambda reader: allowlist.patterns(reader, agent))
    return {"patterns": [_row(row) for row in rows]}


async def allowlist_add(call: Call, params: PatternParams) -> Json:
    """Adds a pattern; commands that match it run on a host without an approval."""
    agent, by, now = _agent(call, params.agent_id), wire.person(call), call.context.clock.now_ms()
    pattern = params.pattern.strip()
    if reason := problem(pattern):
        raise RefusedError(
            f"the pattern {pattern!r} would match nothing: {reason}",
            "Write the words of a command; a last * takes further operands.",
            details={"code": "allowlist.no_effect"},
        )
    added = await call.context.store.write(
        lambda unit: allowlist.add(unit, agent, pattern, "person", by, now)
    )
    return {"ok": True, "added": added, "agentId": agent, "pattern": pattern}


async def allowlist_remove(call: Call, params: PatternParams) -> Json:
    """Removes a pattern."""
    agent, by, now = _agent(call, params.agent_id), wire.person(call), call.context.clock.now_ms()
    removed = await call.context.store.write(
        lambda unit: allowlist.remove(unit, agent, params.pattern, by, now)
    )
    if not removed:
        raise RefusedError(
            f"the allowlist of {agent} has no pattern {params.pattern!r}",
            "List the patterns: skerry approvals allowlist list",
        )
    return {"ok": True, "agentId": agent, "pattern": params.pattern}


async def approvals_get(call: Call, _params: NoParams) -> Json:
    """Returns the allowlist as a file of OpenClaw, with its hash."""
    rows = await call.context.store.read(allowlist.patterns)
    return _snapshot(call, rows)


async def approvals_set(call: Call, params: AllowlistSetParams) -> Json:
    """Replaces the allowlist, if it has not changed since the caller read it."""
    file, by, now = params.file, wire.person(call), call.context.clock.now_ms()
    if modes := file.unsupported():
        raise RefusedError(modes, "Set tools.exec.security and tools.exec.ask instead.")
    new_patterns = {(entry.agent, entry.pattern) for entry in _entries(call, file)}

    def write(unit: Unit) -> list[AllowedPattern]:
        before = allowlist.patterns(unit)
        present = _hash(_file(before))
        if before and params.base_hash != present:
            raise RefusedError(
                "the approvals have changed since they were read",
                "Read them again with exec.approvals.get, then send the change with their hash.",
                details={"code": "approvals.changed", "hash": present},
            )
        had = {(row.agent, row.pattern) for row in before}
        for agent, pattern in sorted(had - new_patterns):
            allowlist.remove(unit, agent, pattern, by, now)
        for agent, pattern in sorted(new_patterns - had):
            if reason := problem(pattern):
                call.warn("file.agents", f"the pattern {pattern!r} matches nothing: {reason}")
            if not allowlist.add(unit, agent, pattern, "person", by, now):
                raise RefusedError(f"agent {agent} has too many patterns")
        return allowlist.patterns(unit)

    return _snapshot(call, await call.context.store.write(write))


def _entries(call: Call, file: ApprovalsFile) -> list[FileEntry]:
    entries = file.entries()
    for entry in entries:
        _agent(call, entry.agent)
    return entries


def _agent(call: Call, name: str | None) -> str:
    return EVERY_AGENT if name == EVERY_AGENT else call.agent(name)


def _row(row: AllowedPattern) -> dict[str, Json]:
    return {
        "agentId": row.agent,
        "pattern": row.pattern,
        "source": row.source,
        "addedAtMs": row.added_at,
        "lastUsedAtMs": row.last_used_at,
        "lastUsedCommand": wire.escaped(row.last_command) or None,
        "lastResolvedPath": wire.escaped(row.last_path) or None,
    }


def _file(rows: list[AllowedPattern]) -> dict[str, Any]:
    agents: dict[str, Any] = {}
    for row in rows:
        entry: dict[str, Any] = {"id": _id(row), "pattern": row.pattern}
        if row.source == "allow-always":
            entry["source"] = row.source
        if row.last_used_at is not None:
            entry |= {"lastUsedAt": row.last_used_at, "lastUsedCommand": row.last_command}
            if row.last_path:
                entry["lastResolvedPath"] = row.last_path
        agents.setdefault(row.agent, {"allowlist": []})["allowlist"].append(entry)
    return {"version": 1, "defaults": {}, "agents": agents}


def _id(row: AllowedPattern) -> str:
    return hashlib.sha256(f"{row.agent}\0{row.pattern}".encode()).hexdigest()[:16]


def _hash(file: dict[str, Any]) -> str:
    """Returns the hash of the patterns, without their use."""
    agents = {
        agent: [entry["pattern"] for entry in rules["allowlist"]]
        for agent, rules in file["agents"].items()
    }
    return hashlib.sha256(msgspec.json.encode(agents, order="sorted")).hexdigest()


def _snapshot(call: Call, rows: list[AllowedPattern]) -> Json:
    file = _file(rows)
    return {
        "path": f"{call.context.config().state_dir / DATABASE}#allowlist",
        "exists": bool(rows),
        "hash": _hash(file),
        "file": file,
    }


METHODS: Final = (
    Method("exec.allowlist.list", AllowlistParams, allowlist_list),
    Method("exec.allowlist.add", PatternParams, allowlist_add),
    Method("exec.allowlist.remove", PatternParams, allowlist_remove),
    Method("exec.approvals.get", NoParams, approvals_get),
    Method("exec.approvals.set", AllowlistSetParams, approvals_set),
)
