"""Guards around the parts of a plugin, so that a slow or broken one harms nothing else.

Each call runs as a hook's handler does: in a task of its own, with a deadline, its failures counted
under what it is called for (`tool weather`), and left alone for a minute after three in a row.
"""

import logging
from collections.abc import Awaitable, Callable, Iterable
from dataclasses import dataclass
from functools import partial
from typing import Any, Final

import msgspec
from msgspec.structs import replace
from pydantic import ValidationError

from skerry.commands.table import Command, CommandCall, CommandError
from skerry.hooks.runner import Handler, HandlerError, HandlerReport, Runner
from skerry.model.caller import Caller
from skerry.model.errors import PluginError, SkerryError, ToolError
from skerry.model.ids import AgentId
from skerry.model.tool import ToolResult, ToolSpec
from skerry.policy.effect import ToolEffect
from skerry.policy.tool_policy import ToolPolicy
from skerry.ports.checks import Check, Level
from skerry.ports.tool import Assessment, Tool, ToolContext, assess, offered, reads_only, verb_of
from skerry.sdk.http import HttpRequest, HttpResponse, HttpRoute
from skerry.sdk.methods import GatewayMethod, MethodCall
from skerry.sdk.registrations import DoctorCheck

logger = logging.getLogger(__name__)

TOOL_SECONDS: Final = 120.0
GATE_SECONDS: Final = 5.0
COMMAND_SECONDS: Final = 30.0
METHOD_SECONDS: Final = 30.0
CHECK_SECONDS: Final = 10.0
MAX_TEXT: Final = 1_048_576
"""Characters that a tool may return."""
MAX_JSON: Final = 1_048_576
"""Bytes that a method may return."""

_EXPECTED: Final = (ToolError, ValidationError, CommandError, PluginError)
"""Exceptions by which a plugin reports an expected error; they are not failures."""


@dataclass(frozen=True, slots=True)
class _Said:
    """An outcome that the plugin raised."""

    error: Exception


class GuardedCall:
    """Calls one function of a plugin."""

    def __init__(
        self,
        runner: Runner,
        plugin: str,
        what: str,
        call: Callable[[Any], Awaitable[Any]],
        seconds: float,
    ) -> None:
        self._runner = runner
        self._what = what
        self._seconds = seconds
        self._handler = Handler[Any, Any](plugin, partial(_heard, call))

    async def call(self, payload: object, read: Callable[[object], Any]) -> Any:
        """Calls the handler and returns its result, converted by `read`.

        Raises:
            HandlerError: it failed, was late, returned nonsense, or rests.
            SkerryError, ValidationError: what the plugin itself said.
        """
        begun = self._runner.begin(self._what, self._handler, payload)
        outcome = await self._runner.end(begun, self._seconds, partial(_read, read))
        if isinstance(outcome, _Said):
            raise outcome.error
        return outcome

    def report(self) -> HandlerReport:
        """Returns how it does."""
        return self._runner.report(self._what, self._handler)


async def _heard(call: Callable[[Any], Awaitable[Any]], payload: object) -> object:
    try:
        return await call(payload)
    except _EXPECTED as error:
        return _Said(error)


def _read(read: Callable[[object], Any], value: object) -> object:
    return value if isinstance(value, _Said) else read(value)


class GuardedTool:
    """A tool of a plugin. Implements `ports.tool.Tool`."""

    def __init__(
        self,
        runner: Runner,
        plugin: str,
        tool: Tool,
        is_chosen: Callable[[AgentId, str], bool] = lambda *_: True,
    ) -> None:
        # A plugin adds to the prompt by its hooks, which the configuration allows or not.
        self.spec: ToolSpec = replace(tool.spec, advice="")
        self.plugin = plugin
        self.reads_only = reads_only(tool)
        self.verb = verb_of(tool)
        self._tool = tool
        self._is_chosen = is_chosen

        async def run(call: tuple[dict[str, Any], ToolContext]) -> object:
            return await tool.run(*call)

        async def gate(call: tuple[dict[str, Any], ToolContext]) -> object:
            return await assess(tool, *call)

        self.guard = GuardedCall(runner, plugin, f"tool {self.spec.name}", run, TOOL_SECONDS)
        self.gate = GuardedCall(
            runner, plugin, f"gate of tool {self.spec.name}", gate, GATE_SECONDS
        )

    async def assess(self, arguments: dict[str, Any], context: ToolContext) -> Assessment:
        """Returns the answer of the plugin's gate to a call; a broken gate denies it."""
        try:
            assessment: Assessment = await self.gate.call((arguments, context), _assessment)
        except HandlerError as error:
            return Assessment(ToolEffect.DENY, "gate-failed", f"its plugin failed: {error}")
        return assessment

    def is_offered(self, caller: Caller) -> bool:
        """Returns whether the plugin offers it to the caller; one that fails at it does not."""
        if not self._is_chosen(caller.key.agent, self.spec.name):
            return False
        try:
            # The configuration was asked before.
            layers = ToolPolicy(frozenset({self.spec.name}))
            return bool(offered([self._tool], caller, layers))
        except Exception:
            logger.exception("the tool %s is not offered: its plugin failed", self.spec.name)
            return False

    async def run(self, arguments: dict[str, Any], context: ToolContext) -> ToolResult:
        """Returns the result; a failure of the plugin is one that the model can read."""
        try:
            result: ToolResult = await self.guard.call((arguments, context), _tool_result)
        except HandlerError as error:
            return ToolResult(f"Tool {self.spec.name} failed: {error}.", is_error=True)
        return result


def _assessment(value: object) -> Assessment:
    if not isinstance(value, Assessment) or not isinstance(value.effect, ToolEffect):
        raise HandlerError(f"it returned {type(value).__name__}, not an Assessment")
    return value


def _tool_result(value: object) -> ToolResult:
    if not isinstance(value, ToolResult) or not isinstance(value.text, str):
        raise HandlerError(f"it returned {type(value).__name__}, not a ToolResult")
    if len(value.text) > MAX_TEXT:
        raise HandlerError(f"it returned more than {MAX_TEXT} characters")
    return value


def guarded_command(runner: Runner, command: Command) -> tuple[Command, GuardedCall]:
    """Returns the command with its function guarded, and the guard."""
    guard = GuardedCall(
        runner, command.plugin, f"command /{command.name}", command.run, COMMAND_SECONDS
    )

    async def run(call: CommandCall) -> str:
        try:
            answer: str = await guard.call(call, _text)
        except HandlerError as error:
            raise CommandError(f"/{command.name} failed: {error}.") from error
        return answer

    return replace(command, run=run), guard


def _text(value: object) -> str:
    if not isinstance(value, str):
        raise HandlerError(f"it returned {type(value).__name__}, not a text")
    return value


def guarded_method(runner: Runner, method: GatewayMethod) -> tuple[GatewayMethod, GuardedCall]:
    """Returns the method with its function guarded, and the guard. It then returns encoded JSON."""

    async def given(both: tuple[Any, MethodCall]) -> object:
        return await method.run(*both)

    guard = GuardedCall(runner, method.plugin, f"method {method.name}", given, METHOD_SECONDS)

    async def run(params: object, call: MethodCall) -> object:
        try:
            return await guard.call((params, call), _json)
        except HandlerError as error:
            raise PluginError(
                f"{method.name} failed: {_told(error)}.", "`skerry plugins list` shows the reason."
            ) from error
        except SkerryError:
            raise
        except ValidationError as error:
            wrong = "; ".join(
                f"{'.'.join(map(str, fault['loc'])) or 'at root'}: {fault['msg']}"
                for fault in error.errors(include_url=False, include_input=False)
            )
            raise PluginError(f"{method.name} received invalid parameters: {wrong}") from error

    return replace(method, run=run), guard


def _told(error: HandlerError) -> str:
    """Returns why a call failed, for a caller; of an exception only its type, never its text."""
    cause = error.__cause__
    if cause is None or isinstance(cause, HandlerError):
        return str(error)
    return f"it raised {type(cause).__name__}"


def _json(value: object) -> object:
    try:
        encoded = msgspec.json.encode(value)
    except (TypeError, ValueError) as error:
        raise HandlerError(f"it returned a value that is not JSON: {error}") from error
    if len(encoded) > MAX_JSON:
        raise HandlerError(f"it returned more than {MAX_JSON} bytes")
    return msgspec.json.decode(encoded)


async def guarded_check(runner: Runner, plugin: str, check: DoctorCheck) -> list[Check]:
    """Returns the findings of a check of a plugin; a warning where it fails."""
    guard = GuardedCall(runner, plugin, "doctor check", lambda _: check(), CHECK_SECONDS)
    try:
        checks: list[Check] = await guard.call(None, _checks)
    except (HandlerError, *_EXPECTED) as error:
        message = f"its check failed: {error}."
        return [Check(f"plugin {plugin}", Level.WARNING, message, "skerry plugins list")]
    return checks


def _checks(value: object) -> list[Check]:
    values = list(value) if isinstance(value, Iterable) else [value]
    checks = [finding for finding in values if isinstance(finding, Check)]
    if len(checks) < len(values):
        raise HandlerError("it returned something that is not a Check")
    return checks


def guarded_route(runner: Runner, route: HttpRoute) -> tuple[HttpRoute, GuardedCall]:
    """Returns the route with its function guarded, and the guard.

    A failure, and an answer that comes too late, is 502; the log has the reason.
    """
    what = f"route {route.path or '/'}"
    guard = GuardedCall(runner, route.plugin, what, route.run, route.seconds)

    async def run(request: HttpRequest) -> HttpResponse:
        try:
            response: HttpResponse = await guard.call(request, _response)
        except HandlerError as error:
            return HttpResponse(f"{what} failed: {_told(error)}.\n", 502)
        except _EXPECTED as error:
            return HttpResponse(f"{error}\n", 400)
        return response

    return replace(route, run=run), guard


def _response(value: object) -> HttpResponse:
    if not isinstance(value, HttpResponse):
        raise HandlerError(f"it returned {type(value).__name__}, not an HttpResponse")
    return value
