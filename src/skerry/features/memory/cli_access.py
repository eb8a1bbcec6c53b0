"""Access to the memory: through a running gateway, else directly in the state directory."""

import os
from argparse import Namespace
from collections.abc import AsyncGenerator, Awaitable, Callable, Sequence
from contextlib import asynccontextmanager
from typing import Any, Final, Protocol, TypeVar

import anyio
from pydantic import BaseModel, ValidationError

from skerry.cli.render import one_line
from skerry.client.client import GatewayClient
from skerry.client.discover import URL, find
from skerry.config.load import load_good
from skerry.config.root import Config
from skerry.features.memory.cli_progress import Bar
from skerry.features.memory.late import answers, methods, offline
from skerry.gateway.problems import describe
from skerry.model.errors import ClientError, GatewayUnreachableError, StateLockedError
from skerry.model.ids import AgentId, agent_id
from skerry.model.memory import MemoryProgress

WAIT_SECONDS: Final = 86_400.0
"""Time limit for an index job; embedding 100,000 passages takes hours, and each batch is stored."""
FORGET_SECONDS: Final = 3600.0
"""Time limit for an erasure, which reads a large database twice and rewrites it."""
POLL_SECONDS: Final = 0.5
ADMIN: Final = ("operator.admin",)

Progress = Callable[[MemoryProgress], None]
P = TypeVar("P", bound=BaseModel)


class Memory(Protocol):
    """An agent's memory, local or behind a gateway."""

    async def ask(self, method: str, params: dict[str, Any], progress: Progress) -> dict[str, Any]:
        """Returns the result of a method such as `memory.search`."""
        ...

    async def sync(self, *, force: bool, progress: Progress) -> dict[str, Any]:
        """Updates the index; returns the report."""
        ...

    async def forget(self, params: dict[str, Any]) -> dict[str, Any]:
        """Returns the result of `memory.forget`."""
        ...


def is_indexed(status: dict[str, Any]) -> bool:
    """Returns true when the memory has an index of files; that of a plugin has none."""
    return status["backend"] in {"builtin", "qmd"}


def empty_advice(workspace: str) -> str:
    """Returns the advice for an empty memory; `workspace` is "" if it is on another machine."""
    location = one_line(workspace) or "the agent's workspace"
    return (
        f"The memory is empty: write MEMORY.md or memory/*.md in {location}, or"
        ' `skerry memory write "The dentist is Dr. Maro."`'
    )


def agent_of(config: Config, named: str | None) -> AgentId:
    """Returns the agent with the id `named`, or the default agent.

    Raises:
        ClientError: no agent has that id.
    """
    agent = agent_id(named) if named else config.agents.default_id
    if agent not in config.agents.ids:
        raise ClientError(
            f"There is no agent {agent!r}.", f"There are: {', '.join(config.agents.ids)}."
        )
    return agent


@asynccontextmanager
async def memory(
    arguments: Namespace, scopes: Sequence[str] = ADMIN, *, requires_slot: bool = True
) -> AsyncGenerator[tuple[Memory, str]]:
    """Gives the memory, and the path of its workspace, "" if that is on another machine.

    Uses the gateway that the arguments or the environment name, else the gateway that owns the
    state directory. Without a gateway, the block owns the directory and opens the memory itself;
    `requires_slot=False` allows this also when another memory is in the slot.
    """
    if not (arguments.url or os.environ.get(URL)):
        config = load_good(os.environ).config
        agent = agent_of(config, arguments.agent)
        workspace = str(config.workspace(agent))
        try:
            async with offline.open_memory(
                config, os.environ, requires_slot=requires_slot
            ) as local:
                yield _LocalMemory(local, agent), workspace
        except StateLockedError as error:
            async with _ask_gateway(arguments, scopes, error) as remote:
                yield remote, workspace
    else:
        async with _ask_gateway(arguments, scopes, None) as remote:
            yield remote, ""


@asynccontextmanager
async def _ask_gateway(
    arguments: Namespace, scopes: Sequence[str], locked: StateLockedError | None
) -> AsyncGenerator[Memory]:
    """Gives the memory of a gateway; raises `locked`, if given, when no gateway answers."""
    address = find(os.environ, url=arguments.url, token=arguments.token)
    try:
        async with GatewayClient(address, scopes=tuple(scopes)) as client:
            yield _RemoteMemory(client, agent_id(arguments.agent) if arguments.agent else None)
    except GatewayUnreachableError as error:
        raise locked or error from error


class _LocalMemory:
    """The memory in a state directory that this process has locked."""

    def __init__(self, local: "offline.OfflineMemory", agent: AgentId) -> None:
        self._local = local
        self._agent = agent

    async def ask(self, method: str, params: dict[str, Any], progress: Progress) -> dict[str, Any]:
        if method == "memory.status":
            return self._with_notes(answers.status_of(await self._local.of(self._agent).status()))
        shape, answer = methods.ANSWERS[method]
        checked = _checked(shape, params)
        if method == "memory.search":
            await self._local.prepare(self._agent, params["query"], progress)
        reply = await answer(self._local.parts.service, self._agent, checked)
        return self._with_notes(reply) if method == "memory.search" else reply

    def _with_notes(self, reply: dict[str, Any]) -> dict[str, Any]:
        return reply | {"notes": [*self._local.notes, *reply["notes"]]}

    async def sync(self, *, force: bool, progress: Progress) -> dict[str, Any]:
        memory = self._local.of(self._agent)
        return answers.report_of(await memory.sync(force=force, progress=progress), memory.name)

    async def forget(self, params: dict[str, Any]) -> dict[str, Any]:
        parts = self._local.parts
        service = parts.service if parts.has_slot else None
        return await methods.forget(
            parts.forgets, service, self._agent, _checked(methods.ForgetParams, params)
        )


def _checked(shape: type[P], params: dict[str, Any]) -> P:
    """Returns the validated parameters.

    Raises:
        ClientError: a parameter is invalid; the message is that of a gateway.
    """
    try:
        return shape.model_validate(params)
    except ValidationError as error:
        raise ClientError(describe(error)) from error


class _RemoteMemory:
    """The memory of a running gateway."""

    def __init__(self, client: GatewayClient, agent: AgentId | None) -> None:
        self._client = client
        self._agent = {} if agent is None else {"agentId": agent}

    async def ask(self, method: str, params: dict[str, Any], progress: Progress) -> dict[str, Any]:
        del progress  # the gateway keeps its index up to date
        reply: dict[str, Any] = await self._client.request(method, self._agent | params)
        return reply

    async def sync(self, *, force: bool, progress: Progress) -> dict[str, Any]:
        return await synced(self._client, self._agent | {"force": force}, progress)

    async def forget(self, params: dict[str, Any]) -> dict[str, Any]:
        merged = self._agent | params
        reply: dict[str, Any] = await self._client.request(
            "memory.forget", merged, timeout=FORGET_SECONDS
        )
        return reply


async def sync_with_progress(
    client: GatewayClient, params: dict[str, Any], seconds: float | None
) -> dict[str, Any]:
    """Calls `memory.sync` for `skerry gateway call`; shows the progress on a terminal."""
    bar = Bar()
    try:
        return await synced(client, params, bar, seconds or WAIT_SECONDS)
    finally:
        bar.end()


async def synced(
    client: GatewayClient,
    params: dict[str, Any],
    progress: Progress,
    seconds: float = WAIT_SECONDS,
) -> dict[str, Any]:
    """Requests an index update from a gateway, and reports the progress until it answers.

    Raises:
        ClientError: the gateway refused, or closed the connection.
        TimeoutError: the gateway did not answer within `seconds`; its job continues.
    """
    report: dict[str, Any] = {}
    failed: list[Exception] = []
    of = {"agentId": params["agentId"]} if "agentId" in params else {}

    async def ask() -> None:
        try:
            report.update(await client.request("memory.sync", params, timeout=seconds))
        except (
            ClientError,
            TimeoutError,
        ) as error:  # the task group would wrap it in an ExceptionGroup
            failed.append(error)
        tasks.cancel_scope.cancel()

    async def status() -> dict[str, Any]:
        reply: dict[str, Any] = await client.request("memory.status", of, timeout=seconds)
        return reply

    async with anyio.create_task_group() as tasks:
        tasks.start_soon(ask)
        try:
            await _follow(status, progress)
        except (ClientError, TimeoutError) as error:
            failed.append(error)
            tasks.cancel_scope.cancel()
    if failed:
        raise failed[0]
    return report


async def _follow(status: Callable[[], Awaitable[dict[str, Any]]], progress: Progress) -> None:
    """Reports the progress of the job until cancelled."""
    while True:
        await anyio.sleep(POLL_SECONDS)
        now = (await status())["progress"]
        if now is not None:
            progress(MemoryProgress(**now))
