"""Registers the parts of a process with its `PluginApi`; each part calls the process."""

from collections.abc import Callable, Iterable, Mapping, Sequence
from typing import Any, TypeVar

import msgspec
from pydantic import BaseModel

from skerry.commands.table import CommandCall, CommandError
from skerry.model.errors import PluginError, SkerryError, ToolError
from skerry.model.tool import ToolResult, ToolSpec
from skerry.plugins.remote.declarations import (
    DeclaredParts,
    DoctorFinding,
    RemoteCommand,
    RemoteHook,
    RemoteMethod,
    RemoteRoute,
    RemoteTool,
    RouteAnswer,
    ToolAnswer,
)
from skerry.plugins.remote.hooks import change_of, handler
from skerry.plugins.remote.process import RemoteProcess
from skerry.plugins.remote.rpc import RemoteError, RemoteRefusedError, encoded
from skerry.plugins.requires import faults
from skerry.ports.checks import Check, Level
from skerry.ports.tool import ToolContext
from skerry.sdk.api import HOOKS, PluginApi
from skerry.sdk.hooks import PromptDraft
from skerry.sdk.http import HttpRequest, HttpResponse
from skerry.sdk.memory import MemoryBackendError, Remembered, SlotStatus
from skerry.sdk.methods import MethodCall

T = TypeVar("T")


class AnyParams(BaseModel, extra="allow"):
    """Parameters of a method, which are checked against the schema of the process."""


def declared(answer: object) -> DeclaredParts:
    """Returns the registrations of a process.

    Raises:
        PluginError: the answer is invalid; the message names the key.
    """
    try:
        return msgspec.convert(answer, DeclaredParts)
    except msgspec.ValidationError as error:
        raise PluginError(f"Its answer to `register` does not fit: {error}.") from error


def add_parts(api: PluginApi, process: RemoteProcess, parts: DeclaredParts) -> None:
    """Registers all parts that the process declared.

    Raises:
        PluginError: a name is invalid, or the configuration does not allow the part.
    """
    kinds: tuple[tuple[Iterable[Any], Callable[[PluginApi, RemoteProcess, Any], None]], ...] = (
        (parts.tools, _add_tool),
        (parts.commands, _add_command),
        (parts.methods, _add_method),
        (parts.hooks, _add_hook),
        (parts.sections, _add_section),
        (parts.services, _add_service),
        (parts.routes, _add_route),
    )
    for members, add in kinds:
        for member in members:
            add(api, process, member)
    if parts.checks:
        _add_checks(api, process)
    if parts.memory:
        api.claim_slot("memory", ProcessMemory(process))


class ProcessTool:
    """A tool of a process. Implements `ports.tool.Tool`."""

    def __init__(self, process: RemoteProcess, tool: RemoteTool) -> None:
        self.spec = ToolSpec(tool.name, tool.description, tool.parameters)
        self._process = process

    async def run(self, arguments: dict[str, Any], context: ToolContext) -> ToolResult:
        """Checks the arguments against the schema, and calls the process.

        Raises:
            ToolError: the arguments are invalid, or the process refused the call.
        """
        if faults_text := _faults_text(self.spec.parameters, arguments):
            raise ToolError(f"The arguments do not fit: {faults_text}. Correct them.")
        caller = context.caller
        params = {
            "name": self.spec.name,
            "arguments": arguments,
            "agent": None if caller is None else str(caller.key.agent),
            "sessionKey": None if caller is None else str(caller.key),
            "runId": context.run_id,
        }
        try:
            answer = await self._process.call("tool", params)
        except RemoteRefusedError as error:
            raise ToolError(_message(error)) from error
        result = ToolAnswer(answer) if isinstance(answer, str) else _read(answer, ToolAnswer)
        return ToolResult(result.text, is_error=result.is_error, details=result.details)


def _add_tool(api: PluginApi, process: RemoteProcess, tool: RemoteTool) -> None:
    api.register_tool(ProcessTool(process, tool), optional=tool.optional)


def _add_command(api: PluginApi, process: RemoteProcess, command: RemoteCommand) -> None:
    async def run(call: CommandCall) -> str:
        params = {
            "name": command.name,
            "arguments": call.arguments,
            "sessionKey": str(call.key),
            "channel": call.channel,
            "isOwner": call.is_owner,
        }
        try:
            return _read(await process.call("command", params), str)
        except RemoteRefusedError as error:
            raise CommandError(_message(error)) from error

    api.register_command(
        command.name,
        run,
        description=command.description,
        accepts_arguments=command.accepts_arguments,
        owner_only=command.owner_only,
    )


def _add_method(api: PluginApi, process: RemoteProcess, method: RemoteMethod) -> None:
    async def run(parameters: AnyParams, call: MethodCall) -> Any:
        values = parameters.model_dump()
        if faults_text := _faults_text(method.parameters, values):
            raise PluginError(
                f"{api.plugin}.{method.name} received invalid parameters: {faults_text}."
            )
        params = {"name": method.name, "params": values, "scopes": call.scopes}
        return await _call(process, "method", params)

    api.register_gateway_method(method.name, AnyParams, run, scope=method.scope)


def _add_hook(api: PluginApi, process: RemoteProcess, hook: RemoteHook) -> None:
    if hook.name not in HOOKS:
        raise PluginError(f"Unknown hook {hook.name!r}.", f"Hooks: {', '.join(HOOKS)}.")
    handle = handler(hook.name, change_of(hook.name), process.call)
    api.on(hook.name, handle, priority=hook.priority)


def _add_section(api: PluginApi, process: RemoteProcess, title: str) -> None:
    async def render(draft: PromptDraft) -> str:
        params = {"title": title, "agent": draft.context.agent_id, "prompt": draft.prompt}
        return _read(await process.call("section", params), str)

    api.register_prompt_section(title, render)


def _add_service(api: PluginApi, process: RemoteProcess, name: str) -> None:
    async def run() -> None:
        await process.call("service", {"name": name})

    api.register_service(name, run)


def _add_route(api: PluginApi, process: RemoteProcess, route: RemoteRoute) -> None:
    async def run(request: HttpRequest) -> HttpResponse:
        params = {
            "path": request.path,
            "method": request.method,
            "query": request.query,
            "headers": request.headers,
            "body": encoded(request.body),
        }
        answer = _read(await _call(process, "route", params), RouteAnswer)
        body = answer.body or answer.text
        return HttpResponse(body, answer.status, answer.content_type, answer.headers)

    api.register_http_route(
        route.path,
        run,
        methods=route.methods,
        is_public=route.public,
        max_body=route.max_body,
        seconds=route.seconds,
    )


def _add_checks(api: PluginApi, process: RemoteProcess) -> None:
    async def check() -> list[Check]:
        findings = _read(await _call(process, "check", {}), list[DoctorFinding])
        return [
            Check(finding.name, Level(finding.level), finding.text, finding.remedy)
            for finding in findings
        ]

    api.register_doctor_check(check)


class ProcessMemory:
    """The memory of a process. Implements `skerry.sdk.memory.SlotMemory`."""

    def __init__(self, process: RemoteProcess) -> None:
        self._process = process

    async def search(self, agent: str, query: str, limit: int) -> Sequence[Remembered]:
        """Returns the texts that match a query, best first.

        Raises:
            MemoryBackendError: the process failed or refused.
        """
        params = {"agent": agent, "query": query, "limit": limit}
        return await self._ask("memory.search", params, list[Remembered])

    async def forget(self, agent: str, phrases: Sequence[str]) -> int:
        """Erases every text with one of the phrases; returns their number.

        Raises:
            MemoryBackendError: the process failed or refused.
        """
        params = {"agent": agent, "phrases": list(phrases)}
        return await self._ask("memory.forget", params, int)

    async def status(self, agent: str) -> SlotStatus:
        """Returns the state; a failure of the process is a state too."""
        try:
            return await self._ask("memory.status", {"agent": agent}, SlotStatus)
        except MemoryBackendError as error:
            return SlotStatus(is_ok=False, text=str(error), remedy=error.remedy)

    async def _ask(self, method: str, params: Mapping[str, Any], kind: type[T]) -> T:
        try:
            return _read(await self._process.call(method, params), kind)
        except (RemoteError, RemoteRefusedError) as error:
            failed = MemoryBackendError(f"The memory of the plugin failed: {error}.")
            failed.remedy = getattr(error, "remedy", "") or "skerry plugins list"
            raise failed from error


async def _call(process: RemoteProcess, method: str, params: Mapping[str, Any]) -> Any:
    try:
        return await process.call(method, params)
    except RemoteRefusedError as error:
        raise PluginError(str(error), error.remedy) from error


def _read(value: Any, kind: type[T]) -> T:
    """Converts an answer to its type.

    Raises:
        RemoteError: the answer does not fit the type.
    """
    try:
        return msgspec.convert(value, kind)
    except msgspec.ValidationError as error:
        raise RemoteError(f"its answer does not fit: {error}") from error


def _faults_text(schema: Mapping[str, Any], values: Mapping[str, Any]) -> str:
    return "; ".join(f"{'.'.join(path)} {text}" for path, text in faults(schema, values, ()))


def _message(error: RemoteRefusedError | SkerryError) -> str:
    return " ".join(filter(None, (str(error), error.remedy)))
