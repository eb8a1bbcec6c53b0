"""`skerry sandbox`: explains and tests where commands of agents run. It needs no gateway."""

import os
from argparse import Namespace
from typing import Any

import anyio

from skerry.cli.failure import FailedError
from skerry.cli.render import notice, one_line, show, show_json, table
from skerry.config.load import load
from skerry.config.root import Config
from skerry.features.sandbox.containers import StoredContainer
from skerry.features.sandbox.open_sandbox import open_sandbox
from skerry.features.sandbox.sandbox_holder import Sandboxes
from skerry.features.sandbox.view import closed_names
from skerry.model.ids import AgentId, SessionKey
from skerry.ports.sandbox import SandboxSpec, SelfTest
from skerry.sdk.slots import SandboxHost


def run(arguments: Namespace) -> int:
    """Runs `skerry sandbox ...`; returns the exit code."""
    config = load(os.environ, fetch=False).config
    sandboxes = open_sandbox(SandboxHost(lambda: config, os.environ))
    match arguments.action:
        case "test":
            return anyio.run(_test, sandboxes, config, arguments)
        case "list":
            return anyio.run(_list, sandboxes, arguments)
        case "recreate":
            return anyio.run(_recreate, sandboxes, config, arguments)
        case _:
            return _explain(sandboxes, config, arguments)


async def _test(sandboxes: Sandboxes, config: Config, arguments: Namespace) -> int:
    agent = _agent(config, arguments)
    if arguments.backend in {None, "auto"}:
        result = await sandboxes.usable(agent)
    else:
        result = await sandboxes.tested(arguments.backend, config.sandbox(agent))
    if arguments.json:
        show_json(_wire(result))
        return 0 if result.usable else 1
    lines = [(check.id, "ok" if check.ok else "FAILED", check.detail) for check in result.checks]
    if lines:
        show(table([("CHECK", "RESULT", "DETAIL"), *lines]))
    show(f"{result.backend}: {'usable' if result.usable else 'not usable'}.")
    if result.remedy:
        notice(one_line(result.remedy))
    return 0 if result.usable else 1


def _wire(result: SelfTest) -> dict[str, Any]:
    checks = [{"id": check.id, "ok": check.ok, "detail": check.detail} for check in result.checks]
    return {
        "backend": result.backend,
        "usable": result.usable,
        "checks": checks,
        "remedy": result.remedy,
    }


async def _list(sandboxes: Sandboxes, arguments: Namespace) -> int:
    listed = await _running_containers(sandboxes)
    if arguments.json:
        rows = [{name: getattr(row, name) for name in row.__struct_fields__} for row in listed]
        show_json({"containers": rows})
    elif not listed:
        show("No container is kept. Bubblewrap keeps none.")
    else:
        lines = [(row.name, row.backend, row.scope, row.image, row.status) for row in listed]
        show(table([("CONTAINER", "BACKEND", "SCOPE", "IMAGE", "STATUS"), *lines]))
    return 0


async def _recreate(sandboxes: Sandboxes, config: Config, arguments: Namespace) -> int:
    listed = await _running_containers(sandboxes)
    if not arguments.all:
        agent = _agent(config, arguments)
        session = SessionKey.parse(arguments.session or "main", agent)
        spec = SandboxSpec((), config.workspace(agent), agent, str(session))
        scope = sandboxes.granted(spec).scope
        listed = [row for row in listed if row.scope == scope]
    for backend in sandboxes.containers:
        await backend.remove([row.id for row in listed if row.backend == backend.name])
    removed = [row.name for row in listed]
    if arguments.json:
        show_json({"removed": removed})
    else:
        show("\n".join(f"{name} is removed." for name in removed) or "No container is kept.")
    return 0


async def _running_containers(sandboxes: Sandboxes) -> list[StoredContainer]:
    """Returns the containers of the backends that respond."""
    return [row for backend in sandboxes.containers for row in await backend.stored_containers()]


def _explain(sandboxes: Sandboxes, config: Config, arguments: Namespace) -> int:
    agent = _agent(config, arguments)
    session = SessionKey.parse(arguments.session or "main", agent)
    spec = SandboxSpec((), config.workspace(agent), agent, str(session))
    granted = sandboxes.granted(spec)
    settings, limits = granted.settings, granted.limits
    closed = closed_names(is_tainted=False)
    tainted = closed_names(is_tainted=True)
    facts = {
        "agentId": agent,
        "sessionKey": str(session),
        "mode": settings.mode,
        "sandboxed": sandboxes.applies(agent, str(session)),
        "scope": settings.scope,
        "container": granted.scope,
        "backend": settings.backend,
        "backends": list(sandboxes.names),
        "workspace": str(spec.workspace),
        "workspaceAccess": settings.workspace_access,
        "network": settings.docker.network,
        "memoryBytes": limits.memory_bytes,
        "pidsLimit": limits.processes,
        "cpus": limits.cpus,
        "binds": list(settings.docker.binds),
        "readOnly": list(closed.folders),
        "readOnlyAfterForeignText": sorted({*tainted.folders, *tainted.files}),
    }
    if arguments.json:
        show_json(facts)
        return 0
    show(table([(name, _text(value)) for name, value in facts.items()]))
    return 0


def _text(value: object) -> str:
    if isinstance(value, list):
        return ", ".join(map(str, value)) or "-"
    if isinstance(value, bool):
        return "yes" if value else "no"
    return "-" if value is None else str(value)


def _agent(config: Config, arguments: Namespace) -> AgentId:
    agent = AgentId(arguments.agent) if arguments.agent else config.agents.default_id
    if agent not in config.agents.ids:
        ids = ", ".join(config.agents.ids)
        raise FailedError(f"Unknown agent {agent!r}.", f"Agents: {ids}.")
    return agent
