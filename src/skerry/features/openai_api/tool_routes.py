"""`POST /tools/invoke`: calls one tool of an agent, as a run without a model.

The call passes the same gates as one of a model: hooks, the rules of the configuration, the taint
of its conversation, and approvals. Some tools are refused here even where a model may call them.
"""

from collections.abc import Mapping
from contextlib import ExitStack
from typing import Any, Final

import msgspec
from msgspec.structs import replace
from pydantic import BaseModel, ConfigDict, Field, ValidationError
from pydantic.alias_generators import to_camel
from starlette.requests import Request
from starlette.responses import Response
from starlette.types import Receive, Scope, Send

from skerry.config.root import Config
from skerry.features.openai_api import agent_names, api_runs, api_sessions
from skerry.features.openai_api.answer import AnsweredRun, RunResponse
from skerry.features.openai_api.api_errors import ApiError, error_response, invalid, json_response
from skerry.features.openai_api.config import HttpConfig, HttpToolsConfig
from skerry.features.openai_api.entrance import Entrance, only, read_json
from skerry.features.openai_api.follower import RunFollower
from skerry.gateway.context import GatewayContext
from skerry.model.errors import ModelUnavailableError
from skerry.model.ids import AgentId
from skerry.model.message import ToolResultMessage
from skerry.model.run import RunRequest, RunResult, SkillCall
from skerry.policy.tool_names import canonical
from skerry.ports.tool import Tool, permitted, serving
from skerry.runtime.run_context import caller_of
from skerry.store import Reader, sessions

INVOKE: Final = "invoke"
REFUSED: Final = frozenset(
    {
        *("exec", "process", "write", "edit", "apply_patch"),
        *("cron", "gateway", "nodes"),
        *("sessions_send", "sessions_spawn", "subagents"),
    }
)
"""Tools that `gateway.tools.allow` must name before a caller may use them here: they run commands,
change files, or act in other conversations."""
_TEXT_CHARS: Final = 2_000
_LAST_ENTRIES: Final = 20
_PENDING: Final = "approval-pending"
"""State of a call that a person has not approved yet; it is made when they do."""
_ONCE: Final = {"x-should-retry": "false"}


class InvokeBody(BaseModel):
    """A call of a tool."""

    model_config = ConfigDict(
        frozen=True, extra="ignore", strict=True, alias_generator=to_camel, defer_build=True
    )

    tool: str = Field(min_length=1, max_length=128)
    action: str | None = Field(default=None, max_length=128)
    args: dict[str, Any] = Field(default_factory=dict, max_length=200)
    session_key: str | None = Field(default=None, max_length=512)
    agent_id: str | None = Field(default=None, max_length=64)
    dry_run: bool = False


class ToolCalls:
    """Calls tools for the HTTP clients of one gateway."""

    def __init__(self, context: GatewayContext) -> None:
        self._context = context
        self._entrance = Entrance(context)
        self._runs = api_runs.ApiRuns(context)

    async def serve(self, request: Request) -> Response:
        """Returns the result of the call, or the error."""
        try:
            return await self._serve(request)
        except ApiError as error:
            return _refused(error, request)

    async def _serve(self, request: Request) -> Response:
        config = self._context.config().gateway.section(HttpConfig)
        if not config.endpoints.tools_invoke.enabled:
            message = "This endpoint is off; set gateway.http.endpoints.toolsInvoke.enabled."
            raise ApiError(404, message, code="unknown_url")
        await self._entrance.admit(request)
        if request.path_params["path"] != INVOKE:
            raise ApiError(404, "There is only /tools/invoke.", code="unknown_url")
        only("POST", request)
        with ExitStack() as held:
            held.enter_context(self._entrance.place(config.max_open_requests))
            max_bytes = config.endpoints.tools_invoke.max_body_bytes
            value, body = await read_json(request, max_bytes)
            identity = api_runs.identity(request.headers, INVOKE, body)
            return await self._invoke(request.headers, _parsed(value), identity, held)

    async def _invoke(
        self,
        headers: Mapping[str, str],
        body: InvokeBody,
        identity: api_runs.RunIdentity,
        held: ExitStack,
    ) -> Response:
        named = body.session_key or api_sessions.header(headers, api_sessions.KEY_HEADERS)
        run = self._runs.tool_request(identity, self._agent(headers, body), named)
        tool = await self._tool(run, body.tool)
        if body.dry_run:
            return json_response({"ok": True, "dryRun": True, "tool": tool.spec.name})
        run = _with_call(run, tool, _arguments(tool, body))
        follower = RunFollower(self._context, run.run_id)
        admission = await self._runs.admit(identity, run)
        if admission.result is not None:
            follower.end(admission.result)
        answered = AnsweredRun(
            follower, run.key, bool(identity.key), api_runs.headers(run, admission)
        )
        return CallAnswer(answered, held.pop_all().close)

    def _agent(self, headers: Mapping[str, str], body: InvokeBody) -> AgentId | None:
        name = body.agent_id or api_sessions.header(headers, api_sessions.AGENT_HEADERS)
        return agent_names.known_agent(self._context.config(), name, name) if name else None

    async def _tool(self, run: RunRequest, name: str) -> Tool:
        """Returns the tool, if the caller may use it here and the rules of the agent permit it.

        Raises:
            ApiError: 404, there is no such tool for this caller.
        """
        internal, config = self._context.internal_runs, self._context.config()
        if internal is None:
            raise ApiError(503, "This gateway runs no agents.")
        runtime, caller = internal.dispatch.runtime, caller_of(run)
        await runtime.tools.prepare(caller)
        tool = runtime.tools.get(name) or runtime.tools.get(canonical(name))
        if canonical(tool.spec.name if tool else name) in refused(config):
            message = f"The tool {name[:64]!r} is refused over HTTP; see gateway.tools.allow."
            raise ApiError(404, message, param="tool", code="tool_not_available")
        if tool is not None:
            layers = runtime.tools.layers(caller, config, await self._model(run.key.agent))
            if serving(permitted((tool,), caller, layers), caller):
                return tool
        message = f"The tool {name[:64]!r} is not available to this agent."
        raise ApiError(404, message, param="tool", code="tool_not_available")

    async def _model(self, agent: AgentId) -> tuple[str, str]:
        """Returns provider and id of the agent's model, for rules about models."""
        try:
            _, model = await self._context.models.choose(
                self._context.config().primary_model(agent)
            )
        except ModelUnavailableError:
            return "", ""
        return model.provider, model.id


class CallAnswer(RunResponse):
    """Sends the result of a call, when it is called as an ASGI application."""

    async def respond(self, scope: Scope, receive: Receive, send: Send) -> None:
        """Waits for the end of the call, and sends its result."""
        outcome = await self.outcome()
        if isinstance(outcome, ApiError):
            await _refused(outcome)(scope, receive, send)
        elif outcome is not None:
            await (await self._result(outcome))(scope, receive, send)

    async def _result(self, result: RunResult) -> Response:
        """Returns the result of the tool, as the transcript has it."""

        def read(reader: Reader) -> ToolResultMessage | None:
            entries = sessions.entries(reader, result.session_id, limit=_LAST_ENTRIES)
            found = [
                entry.message
                for entry in entries
                if entry.run_id == result.run_id and isinstance(entry.message, ToolResultMessage)
            ]
            return found[-1] if found else None

        called = await self.run.follower.context.store.read(read)
        if called is None:
            message = "The call has no result in the transcript of its conversation."
            return _refused(ApiError(500, message, code="result_lost", headers=_ONCE))
        if called.is_error:
            return _refused(ApiError(500, called.text, code="tool_failed", headers=_ONCE))
        content = [msgspec.to_builtins(block) for block in called.content]
        details = called.details or {}
        answer = {"content": content, **({"details": details} if details else {})}
        status = 202 if details.get("status") == _PENDING else 200
        return json_response({"ok": True, "result": answer}, status, self.run.headers)


def make(context: GatewayContext) -> ToolCalls:
    """Returns the object that calls tools for the HTTP clients of a gateway."""
    return ToolCalls(context)


def refused(config: Config) -> frozenset[str]:
    """Returns the canonical names of the tools that callers may not use."""
    lists = config.gateway.section(HttpToolsConfig)
    allowed = {canonical(name) for name in lists.allow}
    return (REFUSED - allowed) | {canonical(name) for name in lists.deny}


def _parsed(value: dict[str, Any]) -> InvokeBody:
    try:
        return InvokeBody.model_validate(value)
    except ValidationError as error:
        raise invalid(error) from None


def _arguments(tool: Tool, body: InvokeBody) -> bytes:
    """Returns the arguments of the call as JSON; `action` is added if the tool has it."""
    arguments = dict(body.args)
    if body.action and "action" in tool.spec.parameters.get("properties", {}):
        arguments.setdefault("action", body.action)
    return msgspec.json.encode(arguments)


def _with_call(run: RunRequest, tool: Tool, arguments: bytes) -> RunRequest:
    """Returns the request with the call, which its transcript shows."""
    text = f"Call of the tool {tool.spec.name} over HTTP: {arguments.decode()[:_TEXT_CHARS]}"
    return replace(run, text=text, skill=SkillCall("", "", tool.spec.name, call=arguments))


def _refused(error: ApiError, request: Request | None = None) -> Response:
    """Returns an error with `ok`, as other callers of this endpoint expect it."""
    return error_response(error, {"ok": False, **error.body}, request)
